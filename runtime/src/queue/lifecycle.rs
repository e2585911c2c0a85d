//! A queue's state between its first command and its end.

/// Where a queue is in its life, and with it which thread looks after it.
///
/// | state | it means | `Busy` | `Evict` | `Close` | `Drain` | `Detach` |
/// |---|---|---|---|---|---|---|
/// | `Idle` | no thread looks at it | `Watched`, watch | – | `Closing`, watch | – | – |
/// | `Watched` | the reaper looks at it | stays | `Idle` | `Closing` | – | – |
/// | `Closing` | it takes no command | stays | – | stays | `Drained`, notify | – |
/// | `Drained` | all commands have retired | stays | – | stays | stays | `Detached`, detach |
/// | `Detached` | it is out of the scheduler's table | stays | – | stays | stays | – |
///
/// After the comma: what the caller has to do, see [`Effect`]. A dash is an event that cannot
/// happen in that state; a debug build panics, any other ignores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lifecycle {
    #[default]
    Idle,
    Watched,
    Closing,
    Drained,
    Detached,
}

/// Event in the life of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Something is in flight, or a step is on the device.
    Busy,
    /// The reaper lets a queue go that has been idle for a while.
    Evict,
    /// The last handle is dropped, or the user closes the queue.
    Close,
    /// Everything that was submitted has retired, and nothing is taken any more.
    Drain,
    /// The reaper lets a drained queue go.
    Detach,
}

/// Duty of the caller after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// Hand the queue to the reaper.
    Watch,
    /// Notify the reaper: the last commands may have retired without the device, so that no alarm
    /// comes.
    Notify,
    /// Take the queue out of the scheduler's table.
    Detach,
}

impl Lifecycle {
    /// A row and a column of the table; `None` for a dash.
    const fn next(self, event: Event) -> Option<(Self, Effect)> {
        match (self, event) {
            (Self::Idle, Event::Busy) => Some((Self::Watched, Effect::Watch)),
            (_, Event::Busy) => Some((self, Effect::None)),
            (Self::Watched, Event::Evict) => Some((Self::Idle, Effect::None)),
            (Self::Idle, Event::Close) => Some((Self::Closing, Effect::Watch)),
            (Self::Watched, Event::Close) => Some((Self::Closing, Effect::None)),
            (Self::Closing | Self::Drained | Self::Detached, Event::Close) => {
                Some((self, Effect::None))
            }
            (Self::Closing, Event::Drain) => Some((Self::Drained, Effect::Notify)),
            (Self::Drained | Self::Detached, Event::Drain) => Some((self, Effect::None)),
            (Self::Drained, Event::Detach) => Some((Self::Detached, Effect::Detach)),
            _ => None,
        }
    }

    /// The event happens. Says what the caller has to do.
    #[inline]
    pub(super) fn on(&mut self, event: Event) -> Effect {
        let Some((next, effect)) = self.next(event) else {
            debug_assert!(false, "{event:?} cannot happen to a queue that is {self:?}");
            return Effect::None;
        };
        *self = next;
        effect
    }

    /// True if the queue takes no command any more.
    pub(super) const fn is_closing(self) -> bool {
        matches!(self, Self::Closing | Self::Drained | Self::Detached)
    }
}

/// The step of a hold that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StepState {
    /// No step.
    #[default]
    None,
    /// A release waits for the launching half to come back.
    AwaitsLauncher,
    /// The device works on the step with this number.
    OnDevice(u32),
}

impl StepState {
    /// True if the device works on a step.
    pub(super) const fn on_device(self) -> bool {
        matches!(self, Self::OnDevice(_))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const EVENTS: [Event; 5] =
        [Event::Busy, Event::Evict, Event::Close, Event::Drain, Event::Detach];

    /// A state, and what each event makes of it.
    type Row = (Lifecycle, [Option<(Lifecycle, Effect)>; 5]);

    /// The rows of the table in the documentation.
    fn table() -> Vec<Row> {
        use Effect::{Detach, None as No, Notify, Watch};
        use Lifecycle::{Closing, Detached, Drained, Idle, Watched};
        vec![
            (Idle, [Some((Watched, Watch)), None, Some((Closing, Watch)), None, None]),
            (Watched, [Some((Watched, No)), Some((Idle, No)), Some((Closing, No)), None, None]),
            (
                Closing,
                [Some((Closing, No)), None, Some((Closing, No)), Some((Drained, Notify)), None],
            ),
            (Drained, {
                let stays = Some((Drained, No));
                [stays, None, stays, stays, Some((Detached, Detach))]
            }),
            (Detached, {
                let stays = Some((Detached, No));
                [stays, None, stays, stays, None]
            }),
        ]
    }

    #[test]
    fn every_row_of_the_table_is_kept() {
        for (state, row) in table() {
            for (event, expected) in EVENTS.into_iter().zip(row) {
                assert_eq!(state.next(event), expected, "{event:?} in {state:?}");
                let mut changed = state;
                match expected {
                    Some((next, effect)) => {
                        assert_eq!(changed.on(event), effect);
                        assert_eq!(changed, next);
                    }
                    None if cfg!(debug_assertions) => {
                        let refused = crate::panics::caught(|| changed.on(event));
                        assert!(refused.is_err(), "{event:?} in {state:?}");
                    }
                    None => {
                        assert_eq!(changed.on(event), Effect::None);
                        assert_eq!(changed, state);
                    }
                }
            }
        }
    }

    #[test]
    fn the_documentation_has_the_same_table() {
        let source = include_str!("lifecycle.rs");
        for (state, row) in table() {
            let start = format!("/// | `{state:?}` |");
            let line = source.lines().find(|line| line.starts_with(&start)).unwrap();
            let cells: Vec<_> = line.split('|').skip(3).map(str::trim).collect();
            for (expected, cell) in row.into_iter().zip(cells) {
                let text = match expected {
                    None => "–".to_owned(),
                    Some((next, Effect::None)) if next == state => "stays".to_owned(),
                    Some((next, Effect::None)) => format!("`{next:?}`"),
                    Some((next, effect)) => {
                        format!("`{next:?}`, {}", format!("{effect:?}").to_lowercase())
                    }
                };
                assert_eq!(cell, text, "the row of {state:?}");
            }
        }
    }
}
