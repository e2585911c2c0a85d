//! The columns of processes, and which of them a terminal has room for.

use std::time::Duration;

use xsched_node::ClientStatus;

use super::state::{State, span};
pub(super) use crate::node::plain;

/// Cells of the bar of a share.
const BAR: usize = 10;

/// A column of processes.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) meaning: &'static str,
    pub(super) width: u16,
    pub(super) is_right: bool,
    /// The larger, the sooner it is left out of a narrow terminal.
    rank: u8,
    pub(super) cell: fn(&State, &ClientStatus) -> String,
}

const fn column(
    title: &'static str,
    meaning: &'static str,
    width: u16,
    is_right: bool,
    rank: u8,
    cell: fn(&State, &ClientStatus) -> String,
) -> Column {
    Column { title, meaning, width, is_right, rank, cell }
}

/// All of them, as a wide terminal shows them.
pub(super) const COLUMNS: [Column; 15] = [
    column("PID", "number of the process; 0 if the daemon cannot see it", 7, true, 0, |_, c| {
        c.pid.to_string()
    }),
    column("USER", "its user", 8, false, 5, |state, c| state.user(c.uid)),
    column("PROGRAM", "what it calls itself", 16, false, 1, |_, c| plain(&c.name)),
    column("TENANT", "its tenant, or its grant", 12, false, 13, |_, c| plain(&c.tenant)),
    column("GPU", "its GPU; a process has a row for each", 10, false, 3, |_, c| plain(&c.device)),
    column("STATE", "one of the states below", 7, false, 0, |_, c| c.state.clone()),
    column("SINCE", "time in this state", 9, true, 6, |_, c| ms(c.since_ms)),
    column("HELD BY", "what runs instead, or `hand` for a user", 11, false, 7, State::held_by),
    column("PRIO", "its priority, -256 to 255; the higher comes first", 4, true, 4, |_, c| {
        c.priority.to_string()
    }),
    column(
        "SHARE GOT/WANTED",
        "percent of the GPU: got in the last second, and asked for",
        22,
        false,
        2,
        |_, c| share(c),
    ),
    column("GPU TIME", "device time that it has used", 9, true, 8, |_, c| ms(c.device_ms)),
    column("HOLDS", "how often it was held", 7, true, 9, |_, c| c.holds.to_string()),
    column("WAITED", "for how long it had work and was held", 9, true, 10, |_, c| ms(c.waited_ms)),
    column("PAST", "launches that went past the scheduler", 5, true, 11, |_, c| {
        c.past.map_or_else(|| "-".to_owned(), short)
    }),
    column(
        "DRIVER",
        "percent by the driver; ! more than reported, v lowered for it",
        7,
        false,
        12,
        |_, c| driver(c),
    ),
];

/// The columns for which there is room.
pub(super) fn columns(width: u16) -> Vec<&'static Column> {
    let needs = |rank: u8| -> u16 {
        COLUMNS.iter().filter(|column| column.rank <= rank).map(|column| column.width + 1).sum()
    };
    // One space less than columns.
    let most = (0..=13).rev().find(|rank| needs(*rank) <= width.saturating_add(1)).unwrap_or(0);
    COLUMNS.iter().filter(|column| column.rank <= most).collect()
}

fn ms(ms: u64) -> String {
    span(Duration::from_millis(ms))
}

/// A count in at most five characters.
fn short(count: u64) -> String {
    match count {
        0..100_000 => count.to_string(),
        100_000..10_000_000 => format!("{}k", count / 1_000),
        10_000_000..10_000_000_000 => format!("{}M", count / 1_000_000),
        _ => "many".to_owned(),
    }
}

/// `[####|    ] 38%/ 40%`: the share that was got, with a mark at the one that is wanted.
fn share(client: &ClientStatus) -> String {
    let got = usize::try_from(client.got_permille.min(1_000)).unwrap_or(0);
    let filled = (got * BAR + 500) / 1_000;
    let mark = client.share.map(|share| (usize::from(share) * BAR / 100).min(BAR - 1));
    let cell = |at: usize| match (Some(at) == mark, at < filled) {
        (true, _) => '|',
        (_, true) => '#',
        _ => ' ',
    };
    let bar: String = (0..BAR).map(cell).collect();
    let wanted = client.share.map_or_else(|| "   -".to_owned(), |share| format!("{share:3}%"));
    format!("[{bar}]{:4}%/{wanted}", (got + 5) / 10)
}

/// The use of the GPU by the driver's accounting, with a mark if that is clearly more, and one if
/// the process has a lower class for that.
fn driver(client: &ClientStatus) -> String {
    let mark = match (client.is_understated, client.is_lowered) {
        (true, true) => " !v",
        (true, false) => " !",
        (false, true) => " v",
        (false, false) => "",
    };
    client.driver_permille.map_or_else(|| "-".to_owned(), |n| format!("{:3}%{mark}", n / 10))
}
