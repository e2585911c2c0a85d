//! The suite on the device that does nothing. Its commands have no effect, so what they did is not
//! to be seen, and most checks have nothing to go by.

use xsched_conformance::{Claims, Subject, Work, checks};
use xsched_core::hal::{Noop, NoopQueue};
use xsched_core::level::Level;

/// Queues of a device, each of which can be opened once.
const QUEUES: u32 = 16;

struct Nothing;

impl Subject for Nothing {
    type Command = ();
    type Backend = Noop<'static>;

    fn claims(&self) -> Claims {
        let queues_max = Some(QUEUES);
        Claims { busy_permille: 0, queues_max, ..Claims::at(Level::Interrupt) }
    }

    fn device(&self) -> Result<Noop<'static>, String> {
        // A few hundred bytes for each check stay behind; the device borrows its queues.
        let queues: Vec<NoopQueue> = (0..QUEUES).map(|_| NoopQueue::new()).collect();
        Ok(Noop::new(queues.leak()))
    }

    fn config(&self, _: &mut Noop<'static>) {}

    fn command(&self, work: Work) -> Option<()> {
        matches!(work, Work::Empty).then_some(())
    }
}

fn main() {
    xsched_conformance::main([("noop", checks(), Nothing)]);
}
