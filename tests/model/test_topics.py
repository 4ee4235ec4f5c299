from borzoi.model.topics import Compression


def test_the_first_two_compressions_have_the_numbers_that_published_clients_know() -> None:
    assert [(kind.name, kind.value) for kind in Compression] == [
        ("NONE", 1),
        ("GZIP", 2),
        ("LZ4", 3),
        ("ZSTD", 4),
    ]
