"""All that is told of one window: of each model a picture, the phases' shares, a verdict."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from twophase.counters.calibrated import Curves
from twophase.counters.derive import picture
from twophase.counters.engines import Engine, recognised, tells_tokens
from twophase.counters.iterations import OFF, Iteration, later_than
from twophase.counters.iterations_picture import iterations_picture
from twophase.counters.page import Read
from twophase.counters.phase_share import phase_shares
from twophase.counters.picture import Picture
from twophase.counters.prior_type import Prior
from twophase.counters.quantities import models_of, quantities
from twophase.counters.share import Share
from twophase.counters.source import seconds_between
from twophase.counters.turned_off import no_engine, router
from twophase.counters.verdict import Dominant, dominant, verdict
from twophase.counters.window import Window, between
from twophase.counters.workload import Workload, workload
from twophase.errors import InputError


@dataclass(frozen=True, slots=True)
class Beside:
    """What the user adds to the counters."""

    curves: Curves | None = None
    prior: Callable[[str], Prior | None] | None = None  # of the model that a page names


@dataclass(frozen=True, slots=True)
class Reading:
    picture: Picture
    shares: tuple[Share, ...]  # the best first
    missing: tuple[str, ...]  # why other methods could not tell
    workload: Workload | None
    dominant: Dominant
    verdict: str


def read_pair(first: Read, second: Read, seconds: float | None, beside: Beside) -> list[Reading]:
    """Of two pages of one server; InputError where they aren't."""
    notes = tuple(dict.fromkeys((*first.notes, *second.notes)))
    if first.page is None or second.page is None:
        if first.page is not second.page:
            raise InputError(f"{first.source} and {second.source} are pages of different kinds")
        later = later_than(first.iterations, second.iterations)
        if not later and second.iterations:
            if second.iterations == first.iterations:
                raise InputError(
                    f"{first.source} and {second.source} are the same snapshot: a window needs two, the "
                    "second taken some seconds after the first"
                )
            raise InputError(
                f"{second.source} has no iteration that {first.source} has not: give the earlier one first"
            )
        return [of_iterations(second.source, later, seconds, notes)]
    window = between(first.page, second.page, seconds_between(first.page, second.page, seconds))
    before, engines = (recognised({name for name, _ in each.samples}) for each in (first.page, second.page))
    names = {name for name, _ in second.page.samples}
    if not engines or (router(names) and not tells_tokens(engines[0], names)):
        raise no_engine(names, second.source)
    if before and before[0].name != engines[0].name:
        raise InputError(
            f"{first.source} is a page of {before[0].title}, {second.source} of {engines[0].title}: give two "
            "pages of one server"
        )
    return of_window(engines, replace(window, notes=(*notes, *window.notes)), beside)


def of_window(engines: Sequence[Engine], window: Window, beside: Beside) -> list[Reading]:
    """A page of two engines has the other's names from an adapter: the one with more of them counts."""
    engine, *others = engines
    if window.seconds is None:
        note = (
            "how long the window was is not known, so nothing by the second is shown: give --window SECONDS"
        )
        window = replace(window, notes=(*window.notes, note))
    if others:
        titles = " and ".join(each.title for each in others)
        window = replace(window, notes=(*window.notes, f"names of {titles}, also there, are left out"))
    return list(_models(engine, window, beside))


def _models(engine: Engine, window: Window, beside: Beside) -> Iterator[Reading]:
    models = models_of(engine, window)
    for model in models:
        own = quantities(engine, model, window, alone=len(models) == 1)
        found = picture(own, window)
        prior = beside.prior(model) if beside.prior else None
        shares, missing = phase_shares(found, engine.exact, own.histograms.get("itl"), beside.curves, prior)
        yield reading_of(found, shares, missing)


def of_iterations(
    source: str, own: Sequence[Iteration], seconds: float | None, notes: tuple[str, ...]
) -> Reading:
    if not own:
        raise InputError(
            f"{source} is an empty list: no iteration since the last poll, or TensorRT-LLM keeps none: {OFF}"
        )
    found, share = iterations_picture(own, seconds)
    missing = () if share else ("no iteration only decodes, so those with both phases can't be divided",)
    return reading_of(replace(found, notes=(*notes, *found.notes)), [share] if share else [], missing)


def reading_of(found: Picture, shares: Sequence[Share], missing: Sequence[str]) -> Reading:
    kind = workload(found.prompt_tokens_mean, found.output_tokens_mean)
    return Reading(
        picture=found,
        shares=tuple(shares),
        missing=tuple(missing),
        workload=kind,
        dominant=dominant(shares),
        verdict=verdict(found, shares, kind),
    )
