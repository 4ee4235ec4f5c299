"""One line per event, in columns; the last ones are kept for a failure."""

from borzoi.consensus.frames import root
from borzoi.simulator.draws import Draw
from borzoi.simulator.simulation import Simulation
from borzoi.simulator.trace import KEPT_LINES, Trace, describe, event_line


def test_lines_go_to_the_sink_and_the_last_are_kept():
    seen: list[str] = []
    trace = Trace(seen.append, keep=False)
    for number in range(KEPT_LINES + 5):
        trace.line(str(number))
    assert trace.enabled
    assert len(seen) == KEPT_LINES + 5
    assert trace.last()[0] == "5"


def test_an_unused_trace_is_off():
    assert not Trace(None, keep=False).enabled


def test_an_event_shows_who_and_how_far():
    simulation = Simulation(Draw(seed=1))
    simulation.start()
    line = event_line(12, simulation.nodes[1].replicas[0], 3, "hello")
    assert line.split()[:3] == ["12", "1/0", "b"]
    assert "!3" in line
    assert line.endswith("hello")


def test_a_frame_is_described_by_what_decides():
    text = describe(root(bytes(range(16)), 0))
    assert text.startswith("Prepare view=0 op=0")
