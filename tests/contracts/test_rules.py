"""Citations: a rule id is explained in docs/consensus.md, a section is of a published page."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "consensus.md"
#: Folders whose comments cite the rules of consensus.
CITING = ("src/borzoi/consensus", "src/borzoi/simulator", "tests/consensus", "tests/simulation")
FOLDERS = ("src", "tests", "bench", "examples", "tools")

RULE = re.compile(r"\b[A-Z]\d{1,2}\b")
RANGE = re.compile(r"\b([A-Z])(\d{1,2})[-–]\1(\d{1,2})\b")
EXPLAINED = re.compile(r"^\| ([A-Z]\d{1,2}) \|", re.MULTILINE)
#: "section 5", "§ 5", "(4.12)", "(N7, 4.7)", "4.4 step 8", or a sentence that begins with "4.12:".
SECTION = re.compile(
    r"(?<!RFC \d{4}, )\bsections? \d"
    r"|§"
    r"|(?<!\w)\((?:[A-Z]\d{1,2}, )*[1-9]\d?\.\d{1,2}(?=[-,):]| step)"
    r"|\b\d{1,2}\.\d{1,2} steps? \d"
    r"|^\W*\d{1,2}\.\d{1,2}(?::| [a-z])"
)


def rules_in(text: str) -> set[str]:
    """The ids in a text; N1-N3 stands for all three."""
    found = set(RULE.findall(text))
    for letter, first, last in RANGE.findall(text):
        found |= {f"{letter}{number}" for number in range(int(first), int(last) + 1)}
    return found


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Comments and strings that are sentences, line by line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and token.string.startswith('"""')
        if token.type == tokenize.COMMENT or is_docstring:
            for number, line in enumerate(token.string.splitlines()):
                yield token.start[0] + number, line


def test_every_rule_that_code_cites_is_explained() -> None:
    explained = set(EXPLAINED.findall(PAGE.read_text()))
    assert len(explained) > 60
    unknown = {
        f"{path.relative_to(ROOT)}:{number}: {rule}"
        for folder in CITING
        for path in (ROOT / folder).glob("*.py")
        for number, line in prose(path.read_text())
        for rule in rules_in(line) - explained
    }
    assert unknown == set()


def test_the_pages_cite_rules_that_are_explained() -> None:
    text = PAGE.read_text()
    assert rules_in(text) <= set(EXPLAINED.findall(text))
    rows = re.findall(r"^\| `\w+` \| ([^|]+) \|", (ROOT / "docs/reliability.md").read_text(), re.M)
    assert set().union(*map(rules_in, rows)) <= set(EXPLAINED.findall(text))


def test_no_rule_is_explained_twice() -> None:
    rules = EXPLAINED.findall(PAGE.read_text())
    assert len(rules) == len(set(rules))


def test_no_comment_cites_a_section_of_a_page_that_is_not_here() -> None:
    cited = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != Path(__file__)
        for number, line in prose(path.read_text())
        if SECTION.search(line)
    ]
    assert cited == []


def test_citations_are_recognised() -> None:
    assert rules_in("N1-N3 and V10") == {"N1", "N2", "N3", "V10"}
    for line in (
        "see section 5",
        "# 4.12: a lease",
        "(N7, 4.7)",
        "(6.3-6.6)",
        "4.4 step 8",
        "§ 3",
        '"""9.3 by reading',
    ):
        assert SECTION.search(line), line
    for line in (
        "RFC 9000, section 17.2",
        "OpenAPI 3.1",
        "waits 0.5 s (at most 1.5 s)",
        "sections",
    ):
        assert not SECTION.search(line), line
