//! Actions of keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use xsched_node::Request;

use super::state::{Mode, State, words};

/// Command that is carried out outside the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Ask(Request),
}

/// The longest filter, in characters.
const FILTER_MAX: usize = 64;

/// Takes a key.
pub(super) fn take(state: &mut State, key: KeyEvent) -> Option<Command> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c' | 'C')).then_some(Command::Quit);
    }
    match std::mem::replace(&mut state.mode, Mode::Normal) {
        Mode::Normal => normal(state, key.code),
        // Any key ends it.
        Mode::Help => None,
        Mode::Filter => {
            filter(state, key.code);
            None
        }
        Mode::Priority { pid, text } => {
            state.mode = priority(pid, text, key.code);
            None
        }
        Mode::Confirm { request, .. } => match key.code {
            KeyCode::Char('y' | 'Y') => Some(Command::Ask(request)),
            _ => {
                state.note = format!("not done: {}", words(&request));
                None
            }
        },
    }
}

fn normal(state: &mut State, code: KeyCode) -> Option<Command> {
    state.note.clear();
    match code {
        KeyCode::Char('q') => return Some(Command::Quit),
        KeyCode::Up | KeyCode::Char('k') => state.select(-1),
        KeyCode::Down | KeyCode::Char('j') => state.select(1),
        KeyCode::PageUp => state.select(-10),
        KeyCode::PageDown => state.select(10),
        KeyCode::Home => state.select(isize::MIN),
        KeyCode::End => state.select(isize::MAX),
        KeyCode::Char('s') => state.sort = state.sort.next(),
        KeyCode::Char('r') => state.is_reversed = !state.is_reversed,
        KeyCode::Char('/') => state.mode = Mode::Filter,
        KeyCode::Char('?') => state.mode = Mode::Help,
        KeyCode::Esc => state.filter.clear(),
        KeyCode::Char('h') => confirm(state, |pid| Request::Hold { pid }),
        KeyCode::Char('u') => confirm(state, |pid| Request::Release { pid }),
        KeyCode::Char('p') => {
            if let Some(pid) = pid(state) {
                state.mode = Mode::Priority { pid, text: String::new() };
            }
        }
        _ => {}
    }
    None
}

/// The number of the process that is selected, by which the daemon finds it.
fn pid(state: &mut State) -> Option<i32> {
    let found = state.process().map(|client| client.pid);
    if found == Some(0) {
        state.note = "the daemon cannot see this process's number".to_owned();
    }
    found.filter(|pid| *pid != 0)
}

fn confirm(state: &mut State, request: impl FnOnce(i32) -> Request) {
    if let Some(pid) = pid(state) {
        state.mode = asked(request(pid));
    }
}

fn asked(request: Request) -> Mode {
    Mode::Confirm { words: words(&request), request }
}

fn filter(state: &mut State, code: KeyCode) {
    match code {
        KeyCode::Enter => return,
        KeyCode::Esc => {
            state.filter.clear();
            return;
        }
        KeyCode::Backspace => drop(state.filter.pop()),
        KeyCode::Char(c) if state.filter.chars().count() < FILTER_MAX => state.filter.push(c),
        _ => {}
    }
    state.mode = Mode::Filter;
}

fn priority(pid: i32, mut text: String, code: KeyCode) -> Mode {
    match code {
        KeyCode::Esc => return Mode::Normal,
        KeyCode::Enter => {
            if let Some(priority) = text.parse().ok().filter(|n| (-255..=255).contains(n)) {
                let (share, active) = (None, None);
                return asked(Request::Set { pid, priority: Some(priority), share, active });
            }
        }
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Char(c) if text.len() < 4 && (c.is_ascii_digit() || c == '-') => text.push(c),
        _ => {}
    }
    Mode::Priority { pid, text }
}
