from tests.support.interpreter import run_python


def test_the_simulator_is_a_program_of_its_own() -> None:
    done = run_python("-m", "borzoi.simulator", "--help", check=True)
    assert "--seed" in done.stdout
