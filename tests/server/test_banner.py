import msgspec

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
    accelerator="on, with AVX2 instructions",
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
        "accelerator  on, with AVX2",
        "try: iggy",
    ):
        assert wanted in text


def test_only_a_generated_password_is_shown() -> None:
    assert "password     " not in banner(READY)


def test_the_command_to_try_has_the_name_of_the_root_user() -> None:
    for name, said in (("iggy", "iggy"), ("admin", "admin"), ("the boss", "'the boss'")):
        last = banner(msgspec.structs.replace(READY, root_username=name)).splitlines()[-1]
        assert last.endswith(f"--tcp-server-address 127.0.0.1:8090 --username {said} ping")


def test_without_a_listener_there_is_nothing_to_try() -> None:
    quiet = msgspec.structs.replace(
        READY, addresses={}, acknowledge="synced", root_password="drawn", notes=[]
    )
    text = banner(quiet)
    assert "try:" not in text
    assert "password     drawn" in text
    assert "power cut" in text
