//! A frame, from the state alone.

use std::time::{Duration, SystemTime};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use xsched_node::{ClientStatus, GpuStatus, Outsider};

use super::columns::{COLUMNS, Column, columns, plain};
use super::state::{Mode, State, clock, span};
use crate::meaning::STATES;
use crate::node::policy_of;

/// Lines above the lists: what is in charge, and two headers.
const FIXED: u16 = 3;
const KEYS: &str = "q quit  ↑↓ select  s sort  r reverse  / filter  h hold  u release  p priority";

/// How many lines show all lists of a state.
pub(super) fn lines(state: &State) -> u16 {
    let lists = state.status.as_ref().map_or(0, |status| {
        status.gpus.len() + status.outsiders.len() + status.outsiders_unknown.len()
    });
    u16::try_from(lists + state.rows().len()).unwrap_or(u16::MAX).saturating_add(FIXED)
}

/// Draws a frame. Changes of the state only which rows are shown.
pub(super) fn draw(state: &mut State, area: Rect, buffer: &mut Buffer, now: SystemTime) {
    if area.width == 0 || area.height == 0 {
        return;
    }
    let above = Rect { height: (area.height - 1).max(1), ..area };
    if state.mode == Mode::Help {
        draw_help(above, buffer);
    } else {
        draw_lists(state, above, buffer, now);
    }
    if area.height > 1 {
        let mut page = Page { area, buffer, y: area.bottom() - 1 };
        page.line(&foot(state), dim());
    }
}

/// Draws what columns and states mean.
fn draw_help(area: Rect, buffer: &mut Buffer) {
    let mut page = Page { area, buffer, y: area.y };
    for Column { title, meaning, .. } in &COLUMNS {
        page.line(&format!("{title:<17} {meaning}"), Style::new());
    }
    for (state, meaning) in STATES {
        page.line(&format!("{state:<17} {meaning}"), dim());
    }
}

/// Draws all but the last line.
pub(super) fn draw_lists(state: &mut State, area: Rect, buffer: &mut Buffer, now: SystemTime) {
    let mut page = Page { area, buffer, y: area.y };
    let (text, style) = head(state, now);
    page.line(&text, style);
    let count = |all: usize| u16::try_from(all).unwrap_or(u16::MAX);
    let others = others(state);
    let (gpus, below) = (state.status.as_ref().map_or(0, |s| s.gpus.len()), others.len());
    let (mut gpus, mut below, rows) = (count(gpus), count(below), count(state.rows().len()));
    let room = area.height.saturating_sub(FIXED);
    if gpus.saturating_add(below).saturating_add(rows) > room {
        // With little room, processes come first.
        (gpus, below) = (gpus.min(room / 3), below.min(room / 4));
    }
    gpu_list(state, &mut page, gpus);
    process_list(state, &mut page, rows.min(room - gpus - below));
    let style = warning(state);
    others.iter().take(below.into()).for_each(|line| page.line(line, style));
}

/// Where the next line goes.
struct Page<'a> {
    area: Rect,
    buffer: &'a mut Buffer,
    y: u16,
}

impl Page<'_> {
    fn line(&mut self, text: &str, style: Style) {
        self.put(0, text, style);
        self.y = self.y.saturating_add(1);
    }

    /// Writes into the line as far as it has room.
    fn put(&mut self, x: u16, text: &str, style: Style) {
        if self.y < self.area.bottom() && x < self.area.width {
            let width = usize::from(self.area.width - x);
            self.buffer.set_stringn(self.area.x + x, self.y, text, width, style);
        }
    }

    fn paint(&mut self, style: Style) {
        if self.y < self.area.bottom() {
            self.buffer.set_style(Rect { y: self.y, height: 1, ..self.area }, style);
        }
    }
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn warning(state: &State) -> Style {
    if state.has_colors { bold().fg(Color::Red) } else { bold() }
}

fn head(state: &State, now: SystemTime) -> (String, Style) {
    if let Some(gap) = &state.gap {
        let lasted = span(now.duration_since(gap.since).unwrap_or_default());
        let since = clock(gap.since);
        return (format!("NO DAEMON: gap since {since}, {lasted}; {}", gap.why), warning(state));
    }
    let Some(status) = &state.status else {
        return ("xsched: waiting for the daemon".to_owned(), bold());
    };
    let mut text = format!(
        "xsched: policy {}, up {}, {} processes",
        policy_of(status),
        span(Duration::from_millis(status.up_ms)),
        status.clients.len(),
    );
    text += &format!("; sorted by {}", state.sort.name());
    text += if state.is_reversed { ", reversed" } else { "" };
    if !state.filter.is_empty() {
        text += &format!("; with \"{}\"", state.filter);
    }
    (text, bold())
}

fn gpu_list(state: &State, page: &mut Page<'_>, rows: u16) {
    page.line(&format!("{:<12} {:<24} RUNS", "GPU", "WAIT/ALL  NAME"), dim());
    let gpus = state.status.iter().flat_map(|status| &status.gpus);
    for gpu in gpus.take(rows.into()) {
        page.line(&gpu_line(gpu), Style::new());
    }
}

fn gpu_line(gpu: &GpuStatus) -> String {
    let mut runs: Vec<_> = gpu.running.iter().map(ToString::to_string).collect();
    if gpu.running_others > 0 {
        runs.push(format!("{} more", gpu.running_others));
    }
    let runs = if runs.is_empty() { "-".to_owned() } else { runs.join(" ") };
    let name = cut(&plain(&gpu.name), 14);
    let counts = format!("{}/{}", gpu.waiting, gpu.clients);
    format!("{:<12} {counts:<9} {name} {runs}", plain(&gpu.device))
}

fn process_list(state: &mut State, page: &mut Page<'_>, rows: u16) {
    let shown = columns(page.area.width);
    let titles: Vec<_> = shown.iter().map(|column| column.title.to_owned()).collect();
    cells(page, &shown, &titles, dim());
    page.y = page.y.saturating_add(1);
    let selected = state.selected_row();
    let room = usize::from(rows);
    state.first = state.first.min(selected).max((selected + 1).saturating_sub(room));
    let all = state.rows();
    for (at, client) in all.iter().enumerate().skip(state.first).take(room) {
        let texts: Vec<_> = shown.iter().map(|column| (column.cell)(state, client)).collect();
        cells(page, &shown, &texts, style_of(state, client));
        if at == selected && state.selected.is_some() {
            page.paint(Style::new().add_modifier(Modifier::REVERSED));
        }
        page.y = page.y.saturating_add(1);
    }
}

/// The beginning of a text that fits into this number of cells, and spaces for the rest.
fn cut(text: &str, cells: usize) -> String {
    let (mut cut, mut left) = (String::new(), cells);
    for c in text.chars() {
        let width = Span::raw(c.to_string()).width();
        let Some(rest) = left.checked_sub(width) else { break };
        cut.push(c);
        left = rest;
    }
    cut + &" ".repeat(left)
}

/// Writes the cells of a row, each cut to its column.
fn cells(page: &mut Page<'_>, columns: &[&Column], texts: &[String], style: Style) {
    let mut x = 0;
    for (column, text) in columns.iter().zip(texts) {
        let width = usize::from(column.width);
        let cell = if column.is_right { format!("{text:>width$}") } else { text.clone() };
        page.put(x, &cut(&cell, width), style);
        x += column.width + 1;
    }
}

fn style_of(state: &State, client: &ClientStatus) -> Style {
    match client.state.as_str() {
        "alone" | "running" if state.has_colors => Style::new().fg(Color::Green),
        "held" if state.has_colors => Style::new().fg(Color::Yellow),
        "idle" => dim(),
        _ => Style::new(),
    }
}

/// Lists what runs past the scheduler, and what is not known of that.
fn others(state: &State) -> Vec<String> {
    let Some(status) = &state.status else { return Vec::new() };
    let unknown = status.outsiders_unknown.iter().map(|why| format!("not known: {}", plain(why)));
    status.outsiders.iter().map(|one| outsider(state, one)).chain(unknown).collect()
}

fn outsider(state: &State, outsider: &Outsider) -> String {
    let user = outsider.uid.map_or_else(|| "?".to_owned(), |uid| state.user(uid));
    let uses = outsider.driver_permille.map_or_else(String::new, |n| format!(", {}%", n / 10));
    let name = plain(&outsider.name);
    format!("not scheduled: {} {user} {name} on {}{uses}", outsider.pid, plain(&outsider.device))
}

fn foot(state: &State) -> String {
    match &state.mode {
        Mode::Filter => format!("filter: {}_", state.filter),
        Mode::Help => "what columns and states mean; any key ends this".to_owned(),
        Mode::Priority { pid, text } => format!("priority of {pid}, -255 to 255: {text}_"),
        Mode::Confirm { words, .. } => format!("{words}? y or n"),
        Mode::Normal if state.note.is_empty() => KEYS.to_owned(),
        Mode::Normal => plain(&state.note),
    }
}
