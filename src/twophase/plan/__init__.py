"""What to buy: the cheapest deployment that keeps an SLO under a load."""
