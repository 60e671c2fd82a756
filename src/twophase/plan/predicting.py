"""Which further candidates to simulate for the front of cost and latency: those on the predicted one."""

from twophase.plan.candidate import Candidate, usd_per_hour
from twophase.plan.question import Question
from twophase.plan.search import Best, Looked
from twophase.plan.workers import Guess, Work

DEARER = 4.0  # times the winner's cost
COUNTS = 4  # of replicas, from the least on


def promising(question: Question, looked: Looked, work: Work, best: Best, most: int) -> list[Candidate]:
    whole = [each for each in looked.configs if each.prefill is None]
    counts = [tuple(range(each.least, each.least + COUNTS)) for each in whole]
    guesses = work([Guess(each.serving, own) for each, own in zip(whole, counts, strict=True)])
    every: list[tuple[float, float, Candidate]] = []
    for config, own, guessed in zip(whole, counts, guesses, strict=True):
        for replicas, seconds in zip(own, guessed, strict=True):
            each = Candidate(config.serving, replicas)
            cost = usd_per_hour(each, question.prices)
            affordable = question.max_cost is None or cost <= question.max_cost
            if best.usd_per_hour < cost <= DEARER * best.usd_per_hour and affordable:
                every.append((cost, seconds, each))
    found: list[Candidate] = []
    fastest = float("inf")
    for _, seconds, each in sorted(every):
        if seconds < fastest and each.devices <= looked.most_devices:
            found.append(each)
            fastest = seconds
    return found if len(found) <= most else [found[i * len(found) // most] for i in range(most)]
