"""The daemon's metrics, read by Prometheus' own parser of OpenMetrics."""

from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

EXAMPLE = Path(__file__).parents[2] / "daemon/tests/metrics.txt"


def test_the_example_is_open_metrics() -> None:
    parsed = text_string_to_metric_families(EXAMPLE.read_text())  # type: ignore[no-untyped-call]
    families = {family.name: family for family in parsed}
    assert families["xsched_tenant_device_seconds"].type == "counter"
    assert families["xsched_tenant_device_seconds"].unit == "seconds"
    quiet = families["xsched_tenant_hold_to_quiet_seconds"]
    assert quiet.type == "histogram"
    samples = families["xsched_tenant_device_seconds"].samples
    labels = {"node": "node1", "gpu": "0000:1b:00", "tenant": "default"}
    assert [s.value for s in samples if s.labels == labels] == [1.5]
    # A tenant without processes has series as well.
    assert {s.labels["tenant"]: s.value for s in samples} == {"default": 1.5, "pods": 0.0}
    # What a name has of quotes stays in the name.
    process = families["xsched_process_priority"].samples
    assert [s.labels["program"] for s in process] == ['serve "a".py']
