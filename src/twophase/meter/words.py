"""Random English for prompts: short common words, about one token each in any vocabulary."""

from random import Random

TEXT = """
able about above across act add after again age ago air all almost along also always among and animal
answer any appear area arm art ask away back base be bear beat bed been before began best better between
big bird black blue board boat body book both bottom box boy bring brought build busy but buy call came
can car care carry case cause center certain change check child city class clear close cold color come
common cook cool copy corn cost could count country course cover cross cry cut dark day decide deep did
differ direct do dog door down draw dream drive drop dry during each early earth ease east eat egg end
enough even ever every example eye face fact fall family far farm fast father feel feet few field figure
fill final find fine fire first fish five fly follow food foot force form found four free friend from
front full game gave general get girl give glass go gold good got govern great green ground group grow
had half hand happen hard has have he head hear heart heat heavy help her here high hill him his hold
home horse hot hour house how hundred idea in inch interest island it job just keep kind king knew know
lake land language large last late laugh lay lead learn leave left less let letter life light like line
list listen little live long look lost lot love low machine made main make man many map mark may mean
measure men might mile mind minute miss money moon more morning most mother mountain move much music must
name near need never new next night no north note nothing notice now number object ocean of off often oh
old on once one only open or order other our out over own page paper part pass past pattern people
"""
WORDS = tuple(TEXT.split())

NONCE_WORDS = 6  # 49 bits: no two prompts of anybody's runs begin alike


def random_words(rng: Random, count: int) -> list[str]:
    return rng.choices(WORDS, k=count)


def unique_text(rng: Random, stock: list[str], number: int, count: int) -> str:
    """So many words: a beginning that no other prompt has, then random stretches of the stock.

    Prompts whose numbers are closer than there are words differ in the first one already.
    """
    parts = [WORDS[number % len(WORDS)], *random_words(rng, NONCE_WORDS - 1)][:count]
    rest = count - len(parts)
    while rest > 0:
        begin = rng.randrange(len(stock))
        stretch = stock[begin : begin + rest]
        parts += stretch
        rest -= len(stretch)
    return " ".join(parts)
