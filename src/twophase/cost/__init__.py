"""What a pass costs: operations, bytes, and the roofline's time for them."""
