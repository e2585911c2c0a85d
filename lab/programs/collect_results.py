"""The plan's report of its result files: how many passed by category, and each with its figures.

    python collect_results.py test_results

Reads the files of `xsched-lab`, of its benches and of the plan's scripts, and writes REPORT.md beside them.
"""

import argparse
import json
import pathlib
import sys

#: The plan's categories, and how the numbers of their experiments begin.
CATEGORIES = {
    "portability": ("7.1", "4.2"),
    "uniformity": ("7.2",),
    "evolvability": ("7.3", "4.1"),
    "overhead": ("7.4", "5.1", "5.3"),
    "case studies": ("8.", "5.2", "5.4", "llm"),
}


def read(folder):
    """The results of a folder by their numbers, the files of a number in order of their names."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            one = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SystemExit(f"collect_results.py: {path}: {error}") from error
        if isinstance(one, dict) and "test_id" in one and "pass" in one:
            found.append(one)
    return sorted(found, key=lambda one: one["test_id"])


def outcome(one):
    """What an experiment came to, in a word."""
    ended = one.get("status", "measured").replace("_", " ")
    return {True: "pass", False: "fail"}.get(one["pass"], "open" if ended == "measured" else ended)


def summary(results):
    """A line of Markdown for each category: how many passed, failed and are open."""
    yield "| category | experiments | pass | fail | open or not run | pass rate of the judged |"
    yield "|---|--:|--:|--:|--:|--:|"
    for category, begins in CATEGORIES.items():
        outcomes = [outcome(one) for one in results if one["test_id"].startswith(begins)]
        passed, failed = outcomes.count("pass"), outcomes.count("fail")
        rate = f"{100 * passed / (passed + failed):.0f} %" if passed + failed else ""
        rest = len(outcomes) - passed - failed
        yield f"| {category} | {len(outcomes)} | {passed} | {failed} | {rest} | {rate} |"


def figures(one):
    """The plan's quantities of an experiment that are numbers."""
    named = one.get("results", {}).items()
    return ", ".join(f"{name} {value:.4g}" for name, value in named
                     if isinstance(value, (int, float)) and not isinstance(value, bool))


def report(results):
    """The report as Markdown."""
    builds = sorted({str(one.get("results", {}).get("build", one["xsched_version"])) for one in results})
    devices = sorted({one["hardware"] for one in results if one["hardware"]})
    yield "# Results of the test plan"
    yield ""
    yield f"Devices: {', '.join(devices) or 'none'}. Builds: {', '.join(builds) or 'none'}."
    yield ""
    yield from summary(results)
    yield ""
    yield "| experiment | about | outcome | figures |"
    yield "|---|---|---|---|"
    for one in results:
        name = one["test_name"].replace("|", "/")
        yield f"| {one['test_id']} | {name} | {outcome(one)} | {figures(one)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    results = read(folder)
    if not results:
        raise SystemExit(f"collect_results.py: {folder} has no results; run_all_tests.sh writes them")
    text = "\n".join(report(results)) + "\n"
    (folder / "REPORT.md").write_text(text, encoding="utf-8")
    print("\n".join(summary(results)))


if __name__ == "__main__":
    sys.exit(main())
