from borzoi.model.spelling import nearest

KNOWN = {"tcp.address", "tcp.enabled", "http.address"}


def test_the_most_similar_word_is_found() -> None:
    assert nearest("tcp.adress", KNOWN, likeness=0.6) == "tcp.address"


def test_nothing_is_found_if_no_word_is_similar_enough() -> None:
    assert nearest("quic", KNOWN, likeness=0.6) is None
    assert nearest("tcp.adress", KNOWN, likeness=0.99) is None
