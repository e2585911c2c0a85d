//! `xsched top`: a live view of the node's GPUs and processes.

mod columns;
mod draw;
mod keys;
mod source;
mod state;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal;
use ratatui::layout::Rect;
use ratatui::text::Span;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use xsched_console::Ending;
use xsched_console::output::Stream;
use xsched_node::{Request, SocketPath};

use crate::args::TopArgs;
use crate::error::CliError;
use keys::Command;
use source::Source;
use state::State;

/// For how long keys are waited for at a time.
const LOOK: Duration = Duration::from_millis(50);
/// How often it is drawn at least, so that times go on.
const DRAW: Duration = Duration::from_millis(500);
/// The width of a frame that no terminal shows, in columns.
const WIDTH: u16 = 132;
/// The most lines of such a frame.
const LINES_MAX: u16 = 10_000;

/// Shows processes until the user leaves, or once.
pub(crate) fn execute(args: &TopArgs) -> Result<Ending, CliError> {
    if args.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return once();
    }
    let failed = |source| CliError::Write { place: "the terminal".to_owned(), source };
    let left = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&left)).map_err(failed)?;
    }
    let source = Source::start(SocketPath::from_env(), args.interval).map_err(failed)?;
    // A panic restores the terminal too: this sets a hook for that.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let restored = Restored;
    let shown = show(&mut terminal, &source, &left);
    drop(restored);
    shown.map(|()| Ending::Fine).map_err(failed)
}

/// Restores the terminal when it is dropped.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// One frame as text.
fn once() -> Result<Ending, CliError> {
    let at = SocketPath::from_env();
    let update =
        source::ask_once(&at, &Request::Status).map_err(|source| CliError::Node { at, source })?;
    let mut state = State::new(false);
    state.take(update, SystemTime::now());
    let width = terminal::size().ok().filter(|_| io::stdout().is_terminal());
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = width.map(|(width, _)| width).or(named).unwrap_or(WIDTH).clamp(20, 1_000);
    Stream::Stdout.insist(&frame(&mut state, width))?;
    Ok(Ending::Fine)
}

/// All lines of a state but for the keys', without the spaces at their ends.
fn frame(state: &mut State, width: u16) -> String {
    let area = Rect::new(0, 0, width, draw::lines(state).min(LINES_MAX));
    let mut buffer = Buffer::empty(area);
    draw::draw_lists(state, area, &mut buffer, SystemTime::now());
    text(&buffer)
}

/// Returns the contents of a buffer, as lines.
fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width.max(1));
    let line = |cells: &[ratatui::buffer::Cell]| {
        // A character of two cells has an empty one behind it.
        let (mut text, mut at) = (String::new(), 0);
        while let Some(cell) = cells.get(at) {
            text += cell.symbol();
            at += Span::raw(cell.symbol()).width().max(1);
        }
        text.trim_end().to_owned() + "\n"
    };
    buffer.content.chunks(width).map(line).collect()
}

/// Draws and takes keys, until the user or a signal ends it.
fn show(terminal: &mut DefaultTerminal, source: &Source, left: &AtomicBool) -> io::Result<()> {
    let colors = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut state = State::new(colors);
    let mut drawn: Option<Instant> = None;
    while !left.load(Ordering::Relaxed) {
        let mut is_stale = drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW);
        while let Some(update) = source.next() {
            state.take(update, SystemTime::now());
            is_stale = true;
        }
        if is_stale {
            let now = SystemTime::now();
            terminal.draw(|frame| draw::draw(&mut state, frame.area(), frame.buffer_mut(), now))?;
            drawn = Some(Instant::now());
        }
        if !event::poll(LOOK)? {
            continue;
        }
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                match keys::take(&mut state, key) {
                    Some(Command::Quit) => return Ok(()),
                    Some(Command::Ask(request)) => source.ask(request),
                    None => {}
                }
                drawn = None;
            }
            _ => drawn = None,
        }
    }
    Ok(())
}
