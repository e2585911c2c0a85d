//! Frames of states, and keys.

use std::time::{Duration, SystemTime};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use xsched_node::{ClientStatus, GpuStatus, Outsider, Request, Status};

use super::keys::{Command, take};
use super::source::Update;
use super::state::{Mode, State};
use super::{draw, text};

const GPU: &str = "0000:1b:00";

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(43_200 + seconds)
}

fn client(pid: i32, name: &str, state: &str) -> ClientStatus {
    ClientStatus {
        pid,
        uid: 1_000,
        name: name.to_owned(),
        device: GPU.to_owned(),
        state: state.to_owned(),
        since_ms: 1_234,
        past: Some(3),
        ..ClientStatus::default()
    }
}

fn status() -> Status {
    let serve = ClientStatus {
        priority: 100,
        share: Some(70),
        got_permille: 664,
        device_ms: 62_000,
        driver_permille: Some(690),
        ..client(101, "serve.py", "running")
    };
    let train = ClientStatus {
        priority: -100,
        got_permille: 312,
        device_ms: 9_000_000,
        holds: 12_345,
        waited_ms: 4_200,
        is_understated: true,
        driver_permille: Some(990),
        past: None,
        ..client(202, "train.py", "held")
    };
    let held = ClientStatus { held_by_hand: true, ..client(303, "b\u{1b}[2Jad", "held") };
    let gpu = GpuStatus {
        device: GPU.to_owned(),
        name: "NVIDIA H200".to_owned(),
        running: vec![101],
        waiting: 2,
        clients: 4,
        ..GpuStatus::default()
    };
    let outsider = Outsider {
        pid: 999,
        uid: Some(1_001),
        name: "python3".to_owned(),
        device: GPU.to_owned(),
        tenant: "default".to_owned(),
        driver_permille: Some(250),
    };
    Status {
        schema: 2,
        policy: "hpf".to_owned(),
        up_ms: 7_384_000,
        gpus: vec![gpu],
        clients: vec![serve, train, held, client(404, "idle", "idle")],
        outsiders: vec![outsider],
        outsiders_unknown: vec!["processes of AMD GPUs: no /sys/class/kfd".to_owned()],
        ..Status::default()
    }
}

fn state() -> State {
    let mut state = State::new(true);
    state.take(update(status()), at(0));
    state
}

fn update(status: Status) -> Update {
    let users = [(1_000, "ada".to_owned()), (1_001, "bob".to_owned())].into();
    Update::Status(Box::new(status), users)
}

fn frame(state: &mut State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let drawn = terminal.draw(|f| draw::draw(state, f.area(), f.buffer_mut(), at(7)));
    text(drawn.expect("a frame").buffer)
}

fn press(state: &mut State, keys: &str) -> Option<Command> {
    let code = |c: char| match c {
        '\n' => KeyCode::Enter,
        '\u{1b}' => KeyCode::Esc,
        '\u{8}' => KeyCode::Backspace,
        '>' => KeyCode::Down,
        c => KeyCode::Char(c),
    };
    let press = |c| take(state, KeyEvent::new(code(c), KeyModifiers::NONE));
    keys.chars().map(press).last().flatten()
}

const WIDE: &str = "\
xsched: policy hpf, up 2 h 03 m, 4 processes; sorted by GPU
GPU          WAIT/ALL  NAME           RUNS
0000:1b:00   2/4       NVIDIA H200    101
    PID USER     PROGRAM          GPU        STATE       SINCE HELD BY     PRIO SHARE GOT/WANTED        GPU TIME   HOLDS    WAITED  PAST DRIVER
    101 ada      serve.py         0000:1b:00 running    1.23 s              100 [#######|  ]  66%/ 70%  1 m 02 s       0    0.00 s     3  69%
    202 ada      train.py         0000:1b:00 held       1.23 s 101         -100 [###       ]  31%/   -  2 h 30 m   12345    4.20 s     -  99% !
    303 ada      b[2Jad           0000:1b:00 held       1.23 s hand           0 [          ]   0%/   -    0.00 s       0    0.00 s     3 -
    404 ada      idle             0000:1b:00 idle       1.23 s                0 [          ]   0%/   -    0.00 s       0    0.00 s     3 -
not scheduled: 999 bob python3 on 0000:1b:00, 25%
not known: processes of AMD GPUs: no /sys/class/kfd


q quit  ↑↓ select  s sort  r reverse  / filter  h hold  u release  p priority
";

#[test]
fn a_wide_terminal_shows_everything() {
    assert_eq!(frame(&mut state(), 150, 13), WIDE);
}

#[test]
fn a_frame_for_a_pipe_has_all_lines_and_no_others() {
    let shown = super::frame(&mut state(), 150);
    assert_eq!(
        Some(shown.as_str()),
        WIDE.split("\n\n").next().map(|all| all.to_owned() + "\n").as_deref()
    );
}

#[test]
fn narrow_terminals_leave_columns_and_lines_out() {
    let narrow = "\
xsched: policy hpf, up 2 h 03 m, 4 proce
GPU          WAIT/ALL  NAME           RU
    PID PROGRAM          STATE
    101 serve.py         running
    202 train.py         held
q quit  ↑↓ select  s sort  r reverse  /
";
    assert_eq!(frame(&mut state(), 40, 6), narrow);
    for width in 0..160 {
        for height in 0..16 {
            frame(&mut state(), width, height);
        }
    }
}

#[test]
fn the_selected_row_is_always_shown() {
    let mut state = state();
    press(&mut state, ">>>");
    assert_eq!(state.process().map(|client| client.pid), Some(404));
    assert!(frame(&mut state, 80, 6).contains("404 "));
    press(&mut state, "kkkkkk");
    assert!(frame(&mut state, 80, 6).contains("101 "));
}

#[test]
fn without_colors_there_are_none() {
    let mut state = state();
    state.has_colors = false;
    let mut terminal = Terminal::new(TestBackend::new(120, 20)).expect("a terminal");
    let mut colors = |state: &mut State| {
        let drawn = terminal.draw(|f| draw::draw(state, f.area(), f.buffer_mut(), at(7)));
        let is_colored = |cell: &ratatui::buffer::Cell| cell.fg != ratatui::style::Color::Reset;
        drawn.expect("a frame").buffer.content.iter().filter(|cell| is_colored(cell)).count()
    };
    assert_eq!(colors(&mut state), 0);
    state.has_colors = true;
    assert_ne!(colors(&mut state), 0);
}

#[test]
fn a_daemon_that_goes_away_is_a_gap() {
    let mut state = state();
    state.take(Update::Gone("no socket".to_owned()), at(3));
    state.take(Update::Gone("refused".to_owned()), at(5));
    let shown = frame(&mut state, 100, 12);
    assert!(shown.starts_with("NO DAEMON: gap since 12:00:03 UTC, 4.00 s; refused\n"), "{shown}");
    assert!(shown.contains("train.py"), "what was known goes on to be shown");
    state.take(update(Status { up_ms: 10, ..status() }), at(6));
    let shown = frame(&mut state, 100, 12);
    assert!(shown.contains("there was no daemon from 12:00:03 UTC to 12:00:06 UTC"), "{shown}");
    state.take(update(Status { up_ms: 5, ..status() }), at(7));
    assert!(state.note.contains("started anew"), "{}", state.note);
}

#[test]
fn what_changes_a_process_is_asked_for_first() {
    let mut state = state();
    assert_eq!(press(&mut state, ">h"), None);
    assert!(frame(&mut state, 80, 12).contains("hold 202? y or n"));
    assert_eq!(press(&mut state, "n"), None);
    assert_eq!(state.note, "not done: hold 202");
    assert_eq!(press(&mut state, "hy"), Some(Command::Ask(Request::Hold { pid: 202 })));
    assert_eq!(press(&mut state, "uy"), Some(Command::Ask(Request::Release { pid: 202 })));
    let set = |n| Request::Set { pid: 202, priority: Some(n), share: None, active: None };
    assert_eq!(press(&mut state, "p-2\u{8}17\ny"), Some(Command::Ask(set(-17))));
    // Out of range, so it is not taken.
    assert_eq!(press(&mut state, "p256\n"), None);
    assert!(matches!(state.mode, Mode::Priority { .. }));
    assert_eq!(press(&mut state, "\u{1b}q"), Some(Command::Quit));
}

#[test]
fn what_is_asked_of_a_process_ends_with_it() {
    for keys in ["h", "p12", "p12\n"] {
        let mut state = state();
        press(&mut state, ">");
        press(&mut state, keys);
        let others = || status().clients.into_iter().filter(|client| client.pid != 202).collect();
        // Another one goes.
        let mut less = status();
        less.clients.retain(|client| client.pid != 404);
        state.take(update(less), at(1));
        assert_ne!(state.mode, Mode::Normal, "{keys}");
        state.take(update(Status { clients: others(), ..status() }), at(2));
        assert_eq!((&state.mode, &*state.note), (&Mode::Normal, "process 202 has ended"), "{keys}");
        assert_eq!(press(&mut state, "y"), None, "{keys}");
    }
}

#[test]
fn a_question_mark_says_what_the_columns_mean() {
    let mut state = state();
    press(&mut state, "?");
    let shown = frame(&mut state, 100, 21);
    assert!(shown.contains("HELD BY           what runs instead"), "{shown}");
    assert!(shown.contains("\nheld              work that waits"), "{shown}");
    // It is not cut where a terminal has the usual width.
    assert_eq!(frame(&mut state, 80, 21), shown);
    assert_eq!(press(&mut state, "q"), None, "any key ends it");
    assert!(frame(&mut state, 100, 20).contains("train.py"));
}

#[test]
fn wide_characters_leave_columns_where_they_are() {
    let mut wide = status();
    wide.clients[0].name = "日本語の推論サーバ.py".to_owned();
    wide.gpus[0].name = "日本語".to_owned();
    let mut state = State::new(false);
    state.take(update(wide), at(0));
    let shown = super::frame(&mut state, 150);
    let line = |start: &str| {
        shown.lines().find(|line| line.trim_start().starts_with(start)).expect("a line").to_owned()
    };
    assert!(line("101 ").contains(" 日本語の推論サー 0000:1b:00 running "), "{shown}");
    assert!(line("0000:1b").ends_with("日本語         101"), "{shown}");
}

#[test]
fn a_process_that_the_daemon_cannot_name_is_not_changed() {
    let mut state = State::new(false);
    let unnamed = Status { clients: vec![client(0, "inside", "held")], ..Status::default() };
    state.take(update(unnamed), at(0));
    assert_eq!(press(&mut state, "h"), None);
    assert!(state.note.contains("cannot see"), "{}", state.note);
}

#[test]
fn the_filter_and_the_order_choose_rows() {
    let mut state = state();
    let pids = |state: &State| state.rows().iter().map(|row| row.pid).collect::<Vec<_>>();
    press(&mut state, "/.PY\n");
    assert_eq!(pids(&state), [101, 202]);
    press(&mut state, "r");
    assert_eq!(pids(&state), [202, 101]);
    press(&mut state, "\u{1b}rs");
    assert_eq!(pids(&state), [101, 202, 303, 404]);
    press(&mut state, "ssssss");
    assert_eq!((state.sort.name(), pids(&state)), ("GPU time", vec![202, 101, 303, 404]));
    assert_eq!(press(&mut state, "/q\u{8}"), None);
    assert_eq!(state.mode, Mode::Filter);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(take(&mut state, control_c), Some(Command::Quit));
}
