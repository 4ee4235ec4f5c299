from borzoi import __version__
from borzoi.server.banner import Readiness, banner

READY = Readiness(
    addresses={"tcp": "127.0.0.1:8090"},
    data_directory="data",
    acknowledge="written",
    settings_source="the built-in defaults",
    root_source="as it was stored",
    root_username="iggy",
    root_password=None,
    notes=["the HTTP listener is not there yet in this version"],
)


def test_the_banner_says_what_a_newcomer_asks() -> None:
    text = banner(READY)
    for wanted in (
        __version__,
        "127.0.0.1:8090",
        "data",
        "written",
        "as it was stored",
        "not there yet",
        "try: iggy",
    ):
        assert wanted in text


def test_a_password_is_shown_only_where_nobody_else_knows_it() -> None:
    assert "password     " not in banner(READY)


def test_without_a_listener_there_is_nothing_to_try() -> None:
    quiet = Readiness({}, "data", "synced", "file", "random", "iggy", "drawn", [])
    text = banner(quiet)
    assert "try:" not in text
    assert "password     drawn" in text
    assert "power cut" in text
