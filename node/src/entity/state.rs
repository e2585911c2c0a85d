//! States of a process on a GPU, and what leads from one to another.
//!
//! A process is *ready* while it has work, and during [the grace](super::IdleGrace) of a short
//! pause. Its gates are written at once while it is ready. Without work that can wait, as long as
//! it happens before the first work is let through: such a write is *deferred*.
//!
//! Each cell names the next state and, after `/`, what to do with the gates. A dot stands for no
//! change.
//!
//! |state    |WorkBegins  |WorkPauses|WorkEnds|Hold           |Release        |GatesWritten|
//! |---------|------------|----------|--------|---------------|---------------|------------|
//! |Idle     |Running     |.         |.       |Parking/Defer  |.              |.           |
//! |Running  |.           |Grace     |Idle    |Held/Close     |.              |.           |
//! |Grace    |Running     |.         |Idle    |HeldGrace/Close|.              |.           |
//! |Parking  |Held/Close  |.         |.       |.              |Idle           |Parked      |
//! |Parked   |Held        |.         |.       |.              |Unparking/Defer|.           |
//! |Unparking|Running/Open|.         |.       |Parked         |.              |Idle        |
//! |Held     |.           |HeldGrace |Parked  |.              |Running/Open   |.           |
//! |HeldGrace|Held        |.         |Parked  |.              |Grace/Open     |.           |

/// State of a process on a GPU. [`Running`](Self::Running), [`Grace`](Self::Grace),
/// [`Held`](Self::Held) and [`HeldGrace`](Self::HeldGrace) are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntityState {
    /// No work; the gates are open.
    #[default]
    Idle,
    /// Work that may run.
    Running,
    /// A short pause in work that may run.
    Grace,
    /// No work; held, and the gates are not closed yet.
    Parking,
    /// No work; held, and the gates are closed.
    Parked,
    /// No work; released, and the gates are not open yet.
    Unparking,
    /// Work that is held.
    Held,
    /// A short pause in work that is held.
    HeldGrace,
}

/// Something that happens to a process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process has work.
    WorkBegins,
    /// The process has none, and a short pause is expected.
    WorkPauses,
    /// The process has none, and no pause that is short.
    WorkEnds,
    /// A first cause holds the process.
    Hold,
    /// No cause holds the process any more.
    Release,
    /// The gates are as the state says.
    GatesWritten,
}

/// Action of a driver on the gates of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub enum GateWrite {
    /// Nothing.
    #[default]
    Keep,
    /// Close all now.
    Close,
    /// Open all now.
    Open,
    /// Write them soon, and say so by [`SchedEntity::gates_written`](super::SchedEntity).
    Defer,
}

impl EntityState {
    /// Returns whether the scheduler counts the process as one with work.
    #[must_use]
    pub const fn is_ready(self) -> bool {
        matches!(self, Self::Running | Self::Grace | Self::Held | Self::HeldGrace)
    }

    /// Returns whether something holds the process.
    #[must_use]
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Parking | Self::Parked | Self::Held | Self::HeldGrace)
    }

    /// Returns whether the gates still have to be written.
    #[must_use]
    pub const fn is_deferred(self) -> bool {
        matches!(self, Self::Parking | Self::Unparking)
    }

    /// The next state, and what to do with the gates.
    pub const fn next(self, event: Event) -> (Self, GateWrite) {
        use GateWrite::{Close, Defer, Keep, Open};
        match (self, event) {
            (Self::Idle | Self::Grace, Event::WorkBegins) => (Self::Running, Keep),
            (Self::Unparking, Event::WorkBegins) => (Self::Running, Open),
            (Self::Parking, Event::WorkBegins) => (Self::Held, Close),
            (Self::Parked | Self::HeldGrace, Event::WorkBegins) => (Self::Held, Keep),
            (Self::Running, Event::WorkPauses) => (Self::Grace, Keep),
            (Self::Held, Event::WorkPauses) => (Self::HeldGrace, Keep),
            (Self::Running | Self::Grace, Event::WorkEnds) => (Self::Idle, Keep),
            (Self::Held | Self::HeldGrace, Event::WorkEnds) => (Self::Parked, Keep),
            (Self::Idle, Event::Hold) => (Self::Parking, Defer),
            (Self::Unparking, Event::Hold) => (Self::Parked, Keep),
            (Self::Running, Event::Hold) => (Self::Held, Close),
            (Self::Grace, Event::Hold) => (Self::HeldGrace, Close),
            (Self::Parking, Event::Release) => (Self::Idle, Keep),
            (Self::Parked, Event::Release) => (Self::Unparking, Defer),
            (Self::Held, Event::Release) => (Self::Running, Open),
            (Self::HeldGrace, Event::Release) => (Self::Grace, Open),
            (Self::Parking, Event::GatesWritten) => (Self::Parked, Keep),
            (Self::Unparking, Event::GatesWritten) => (Self::Idle, Keep),
            (state, _) => (state, Keep),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const STATES: [EntityState; 8] = [
        EntityState::Idle,
        EntityState::Running,
        EntityState::Grace,
        EntityState::Parking,
        EntityState::Parked,
        EntityState::Unparking,
        EntityState::Held,
        EntityState::HeldGrace,
    ];
    const EVENTS: [Event; 6] = [
        Event::WorkBegins,
        Event::WorkPauses,
        Event::WorkEnds,
        Event::Hold,
        Event::Release,
        Event::GatesWritten,
    ];

    /// Cells of a row of the table in this file's documentation.
    fn rows() -> Vec<Vec<&'static str>> {
        let lines = include_str!("state.rs").lines().filter_map(|line| line.strip_prefix("//! |"));
        lines.map(|line| line.trim_end_matches('|').split('|').map(str::trim).collect()).collect()
    }

    #[test]
    fn every_pair_of_state_and_event_is_as_the_table_says() {
        let rows = rows();
        let names: Vec<String> = EVENTS.iter().map(|event| format!("{event:?}")).collect();
        assert_eq!(rows[0][1..], names);
        assert_eq!(rows.len(), 2 + STATES.len());
        for (row, state) in rows[2..].iter().zip(STATES) {
            assert_eq!(row[0], format!("{state:?}"));
            for (cell, event) in row[1..].iter().zip(EVENTS) {
                let found = match state.next(event) {
                    (next, GateWrite::Keep) if next == state => ".".to_owned(),
                    (next, GateWrite::Keep) => format!("{next:?}"),
                    (next, write) => format!("{next:?}/{write:?}"),
                };
                assert_eq!(*cell, found, "{state:?}, {event:?}");
            }
        }
    }

    #[test]
    fn gates_are_closed_before_held_work_begins_and_open_before_other_work_does() {
        for (state, event) in STATES.into_iter().flat_map(|s| EVENTS.map(|e| (s, e))) {
            // Whether the gates are closed, as far as they were written.
            let closed = |state: EntityState| state.is_held() != state.is_deferred();
            let (next, write) = state.next(event);
            let written = match write {
                GateWrite::Close => true,
                GateWrite::Open => false,
                GateWrite::Keep if event == Event::GatesWritten => state.is_held(),
                GateWrite::Keep | GateWrite::Defer => closed(state),
            };
            assert_eq!(closed(next), written, "{state:?}, {event:?}");
            assert!(!next.is_ready() || !next.is_deferred());
        }
    }
}
