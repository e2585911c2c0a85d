//! A timeline in the trace-event format that trace viewers open.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;

use crate::outcome::{Outcome, Span, SpanKind};
use crate::scenario::Scenario;

/// The process that stands for the host.
const HOST: u32 = 1;
/// Tracks that a group of bars may spread over when they overlap.
const MAX_LANES: usize = 32;

/// The kinds of tracks of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// Work of the device: commands, saving, restoring.
    Device,
    /// Requests.
    Requests,
    /// Times during which the scheduler holds the queue.
    Holds,
}

impl Group {
    fn of(kind: SpanKind) -> Self {
        match kind {
            SpanKind::Command | SpanKind::Save | SpanKind::Restore => Self::Device,
            SpanKind::Request | SpanKind::Unfinished => Self::Requests,
            SpanKind::Hold => Self::Holds,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Device => "commands",
            Self::Requests => "requests",
            Self::Holds => "holds",
        }
    }
}

/// Bars that do not overlap, in a row.
#[derive(Debug, Default)]
struct Lane<'a> {
    spans: Vec<&'a Span>,
    end_ns: u64,
}

/// Writes the timeline of a run, if it has one, as trace-event JSON: one complete event per bar,
/// with times in microseconds to three decimals. Commands, saves and restores are on the process
/// of the device, requests and holds on that of the host; each task has a track of its own for
/// each, and further tracks where its bars overlap (at most 32; bars beyond are left out, and a
/// note says how many). A request of a task with a deadline has a mark where that is, and says
/// whether it was late; one that was not complete at the end has a bar up to the end.
///
/// `scenario` must be the one that was run: it says which device a task uses.
///
/// # Errors
///
/// When `out` cannot be written.
pub fn write_trace(out: &mut dyn Write, outcome: &Outcome, scenario: &Scenario) -> io::Result<()> {
    let (spans, full) = match &outcome.timeline {
        Some(timeline) => (timeline.spans.as_slice(), timeline.dropped),
        None => (&[][..], 0),
    };
    let (tracks, crowded) = arrange(spans);
    let mut events = Events::start(out)?;
    write_processes(&mut events, outcome)?;
    let tasks = scenario.expanded_tasks();
    // Thread numbers are unique across processes and differ from process numbers, since viewers
    // mix up tracks that share one.
    let mut thread = HOST + outcome.devices.len() as u32;
    for ((task, group), lanes) in &tracks {
        let spec = tasks.get(*task as usize);
        let device = spec.map_or(0, |task| task.device);
        let process = if *group == Group::Device { device_process(device) } else { HOST };
        for (number, lane) in lanes.iter().enumerate() {
            thread += 1;
            let name = track_name(outcome, *task, *group, number);
            events.name("thread", process, Some(thread), &name)?;
            for span in &lane.spans {
                let bar = Bar { span, deadline_ns: spec.and_then(|task| task.deadline_ns) };
                bar.write(&mut events, process, thread)?;
            }
        }
    }
    write_notes(&mut events, spans, full, crowded)?;
    events.finish(outcome)
}

fn device_process(device: usize) -> u32 {
    HOST + 1 + device as u32
}

fn track_name(outcome: &Outcome, task: u32, group: Group, lane: usize) -> String {
    let task = outcome.tasks.get(task as usize).map_or("?", |task| task.name.as_str());
    let title = group.title();
    if lane == 0 { format!("{task} {title}") } else { format!("{task} {title} ({})", lane + 1) }
}

/// Spreads the bars of each task and group over lanes so that no two bars of a lane overlap.
/// Returns the lanes and the number of bars for which there was none.
fn arrange(spans: &[Span]) -> (BTreeMap<(u32, Group), Vec<Lane<'_>>>, u64) {
    let mut ordered: Vec<&Span> = spans.iter().collect();
    ordered.sort_by_key(|span| span.start_ns);
    let mut tracks = BTreeMap::<_, Vec<Lane<'_>>>::new();
    let mut crowded = 0;
    for span in ordered {
        let lanes = tracks.entry((span.task, Group::of(span.kind))).or_default();
        let free = lanes.iter().position(|lane| lane.end_ns <= span.start_ns);
        let index = free.unwrap_or(lanes.len());
        if index == lanes.len() {
            if index == MAX_LANES {
                crowded += 1;
                continue;
            }
            lanes.push(Lane::default());
        }
        if let Some(lane) = lanes.get_mut(index) {
            lane.spans.push(span);
            lane.end_ns = span.end_ns;
        }
    }
    (tracks, crowded)
}

fn write_processes(events: &mut Events<'_>, outcome: &Outcome) -> io::Result<()> {
    events.name("process", HOST, None, "host")?;
    for (index, device) in outcome.devices.iter().enumerate() {
        events.name("process", device_process(index), None, &device.name)?;
    }
    Ok(())
}

/// A bar, with the deadline of its task.
struct Bar<'a> {
    span: &'a Span,
    deadline_ns: Option<u64>,
}

impl Bar<'_> {
    fn is_request(&self) -> bool {
        Group::of(self.span.kind) == Group::Requests
    }

    /// Name and the key of its number.
    fn title(&self) -> (String, &'static str) {
        let number = self.span.number;
        match self.span.kind {
            SpanKind::Command => (format!("command {number}"), "command"),
            SpanKind::Request => (format!("request {number}{}", self.lateness()), "request"),
            SpanKind::Unfinished => {
                (format!("request {number}, unfinished{}", self.lateness()), "request")
            }
            SpanKind::Hold => (format!("hold Lv{number}"), "level"),
            SpanKind::Save => ("save".to_owned(), "number"),
            SpanKind::Restore => ("restore".to_owned(), "number"),
        }
    }

    fn lateness(&self) -> &'static str {
        if self.late_ns().is_some() { ", late" } else { "" }
    }

    /// Where the deadline is.
    fn due_ns(&self) -> Option<u64> {
        let deadline_ns = self.deadline_ns.filter(|_| self.is_request())?;
        Some(self.span.start_ns.saturating_add(deadline_ns))
    }

    /// How long after the deadline the bar ends.
    fn late_ns(&self) -> Option<u64> {
        self.span.end_ns.checked_sub(self.due_ns()?).filter(|late_ns| *late_ns > 0)
    }

    fn write(&self, events: &mut Events<'_>, process: u32, thread: u32) -> io::Result<()> {
        let (name, key) = self.title();
        let Span { start_ns, end_ns, number, .. } = *self.span;
        let (ts, dur) = (Micros(start_ns), Micros(end_ns.saturating_sub(start_ns)));
        let late = self
            .late_ns()
            .map_or_else(String::new, |late_ns| format!(",\"late_us\":{}", Micros(late_ns)));
        events.event(format_args!(
            "{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":{process},\"tid\":{thread},\
             \"ts\":{ts},\"dur\":{dur},\"args\":{{\"{key}\":{number}{late}}}}}"
        ))?;
        let Some(due_ns) = self.due_ns() else { return Ok(()) };
        let at = Micros(due_ns);
        events.event(format_args!(
            "{{\"ph\":\"i\",\"s\":\"t\",\"name\":\"deadline of request {number}\",\
             \"pid\":{process},\"tid\":{thread},\"ts\":{at}}}"
        ))
    }
}

/// Notes at the end of the timeline for what is missing from it.
fn write_notes(events: &mut Events<'_>, spans: &[Span], full: u64, crowded: u64) -> io::Result<()> {
    let end = Micros(spans.iter().map(|span| span.end_ns).max().unwrap_or(0));
    let reasons = [(full, "the timeline was full"), (crowded, "too many overlapped")];
    for (count, reason) in reasons.into_iter().filter(|&(count, _)| count > 0) {
        events.event(format_args!(
            "{{\"ph\":\"i\",\"s\":\"g\",\"name\":\"{count} bars are missing: {reason}\",\
             \"pid\":{HOST},\"tid\":{HOST},\"ts\":{end}}}"
        ))?;
    }
    Ok(())
}

/// Writes nanoseconds as microseconds with three decimals, exactly.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// The list of events while it is being written.
struct Events<'a> {
    out: &'a mut dyn Write,
    first: bool,
}

impl<'a> Events<'a> {
    fn start(out: &'a mut dyn Write) -> io::Result<Self> {
        out.write_all(b"{\"traceEvents\":[\n")?;
        Ok(Self { out, first: true })
    }

    fn event(&mut self, event: std::fmt::Arguments<'_>) -> io::Result<()> {
        if !self.first {
            self.out.write_all(b",\n")?;
        }
        self.first = false;
        self.out.write_fmt(event)
    }

    /// Names a process or a thread, and has viewers show them in the order of their numbers.
    fn name(&mut self, what: &str, pid: u32, tid: Option<u32>, name: &str) -> io::Result<()> {
        let number = tid.unwrap_or(pid);
        let event = json!({
            "ph": "M", "name": format!("{what}_name"), "pid": pid, "tid": number,
            "args": { "name": name },
        });
        self.event(format_args!("{event}"))?;
        let event = json!({
            "ph": "M", "name": format!("{what}_sort_index"), "pid": pid, "tid": number,
            "args": { "sort_index": number },
        });
        self.event(format_args!("{event}"))
    }

    fn finish(self, outcome: &Outcome) -> io::Result<()> {
        let other = json!({
            "scenario": outcome.scenario, "policy": outcome.policy,
            "level": outcome.level, "seed": outcome.seed.to_string(),
        });
        writeln!(self.out, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{other}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{outcome, scenario, span, with_spans};
    use serde_json::Value;

    fn trace(outcome: &Outcome) -> Value {
        let mut bytes = Vec::new();
        write_trace(&mut bytes, outcome, &scenario()).unwrap();
        serde_json::from_slice(&bytes).expect("valid JSON")
    }

    fn events<'a>(trace: &'a Value, phase: &str) -> Vec<&'a Value> {
        let all = trace["traceEvents"].as_array().unwrap().iter();
        all.filter(|event| event["ph"] == phase).collect()
    }

    #[test]
    fn an_outcome_without_a_timeline_names_its_processes() {
        let trace = trace(&outcome());
        assert_eq!(trace["displayTimeUnit"], "ns");
        assert_eq!(trace["traceEvents"].as_array().unwrap().len(), 4);
        assert!(events(&trace, "X").is_empty());
    }

    #[test]
    fn times_are_microseconds_to_the_nanosecond() {
        assert_eq!(Micros(1_234_567).to_string(), "1234.567");
        assert_eq!(Micros(5).to_string(), "0.005");
        let trace = trace(&with_spans(vec![span(SpanKind::Command, 1_500, 4_001, 9)], 0));
        let command = events(&trace, "X")[0];
        assert_eq!((&command["ts"], &command["dur"]), (&Value::from(1.5), &Value::from(2.501)));
        assert_eq!(command["name"], "command 9");
        assert_eq!(command["args"]["command"], 9);
    }

    #[test]
    fn kinds_go_to_their_own_tracks() {
        use SpanKind::{Command, Hold, Request, Restore, Save};
        let kinds = [Request, Command, Hold, Save, Restore];
        let place = |(n, kind)| span(kind, n * 10, n * 10 + 5, n);
        let trace = trace(&with_spans((0..).zip(kinds).map(place).collect(), 0));
        let of = |name: &str| {
            let found = events(&trace, "X").into_iter().find(|event| event["name"] == name);
            let found = found.unwrap_or_else(|| panic!("no {name}"));
            (found["pid"].as_u64().unwrap(), found["tid"].as_u64().unwrap())
        };
        assert_eq!(of("command 1"), of("save"));
        assert_eq!(of("command 1"), of("restore"));
        assert_eq!(of("command 1").0, 2);
        assert_eq!((of("request 0").0, of("hold Lv2").0), (1, 1));
        assert_ne!(of("request 0").1, of("hold Lv2").1);
    }

    #[test]
    fn deadlines_and_misses_are_marked() {
        use SpanKind::{Command, Request, Unfinished};
        let spans = vec![
            span(Request, 0, 9_000, 0),
            span(Request, 10_000, 20_001, 1),
            span(Unfinished, 30_000, 50_000, 2),
            span(Command, 0, 40_000, 3),
        ];
        let mut scenario = scenario();
        let marks = |scenario: &Scenario| {
            let mut bytes = Vec::new();
            write_trace(&mut bytes, &with_spans(spans.clone(), 0), scenario).unwrap();
            let trace: Value = serde_json::from_slice(&bytes).expect("valid JSON");
            let mark = |event: &&Value| {
                let late = event["args"]["late_us"].as_f64();
                (event["name"].as_str().unwrap().to_owned(), event["ts"].as_f64().unwrap(), late)
            };
            let of = |phase| events(&trace, phase).iter().map(mark).collect::<Vec<_>>();
            (of("X"), of("i"))
        };
        let (bars, deadlines) = marks(&scenario);
        assert!(deadlines.is_empty() && bars.iter().all(|bar| bar.2.is_none()), "{bars:?}");
        scenario.tasks[0].deadline_ns = Some(10_000);
        let (bars, deadlines) = marks(&scenario);
        let names: Vec<_> = bars.iter().map(|bar| (bar.0.as_str(), bar.2)).collect();
        let requests = [
            ("request 0", None),
            ("request 1, late", Some(0.001)),
            ("request 2, unfinished, late", Some(10.0)),
        ];
        assert_eq!(names[1..], requests);
        assert_eq!(names[0], ("command 3", None));
        let at: Vec<_> = deadlines.iter().map(|mark| mark.1).collect();
        assert_eq!(at, [10.0, 20.0, 40.0], "{deadlines:?}");
        assert_eq!(deadlines[0].0, "deadline of request 0");
    }

    #[test]
    fn bars_of_a_track_do_not_overlap() {
        let request = |n: u64| span(SpanKind::Request, n * 10, n * 10 + 25, n);
        let trace = trace(&with_spans((0..50).map(request).collect(), 0));
        let bars = events(&trace, "X");
        assert_eq!(bars.len(), 50);
        let mut ends = BTreeMap::<u64, f64>::new();
        for bar in bars {
            let (ts, dur) = (bar["ts"].as_f64().unwrap(), bar["dur"].as_f64().unwrap());
            let end = ends.entry(bar["tid"].as_u64().unwrap()).or_default();
            assert!(ts >= *end - 1e-9, "{bar}");
            *end = ts + dur;
        }
        assert_eq!(ends.len(), 3);
        assert!(!ends.contains_key(&1) && !ends.contains_key(&2), "{ends:?}");
    }

    #[test]
    fn missing_bars_are_noted() {
        let requests = (0..40).map(|n| span(SpanKind::Request, n, 1000, n)).collect();
        let trace = trace(&with_spans(requests, 7));
        assert_eq!(events(&trace, "X").len(), MAX_LANES);
        let notes: Vec<_> =
            events(&trace, "i").iter().map(|note| note["name"].to_string()).collect();
        assert_eq!(notes.len(), 2);
        assert!(notes[0].contains("7 bars") && notes[1].contains("8 bars"), "{notes:?}");
    }

    #[test]
    fn names_are_escaped() {
        let mut outcome = with_spans(vec![span(SpanKind::Hold, 0, 1, 3)], 0);
        outcome.tasks[0].name = "a\"b\\c\n".into();
        let trace = trace(&outcome);
        let named = events(&trace, "M").iter().any(|m| m["args"]["name"] == "a\"b\\c\n holds");
        assert!(named, "{trace}");
    }
}
