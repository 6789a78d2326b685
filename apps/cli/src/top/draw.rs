//! Draws a state onto a terminal of any size.

use quartier_decide::reporter::view::{ProcessView, View};
use quartier_model::Nanos;
use quartier_observe::printable;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::rows::{Fitted, LOCAL, MOVES, NODES, TASKS, fit};
use super::state::{Link, Over, State};
use crate::explain::story;
use crate::explain::words::{NEAR, Words, time};

/// Below this part of local running a task is far from its memory.
const FAR: f64 = 0.5;

const KEYS: &str = "q quit  \u{2191}\u{2193} select  e explain  s sort  p pause  ? help";
const KEYS_OVER: &str = "q back  \u{2191}\u{2193} scroll  p pause";

const HELP: &[&str] = &[
    "Keys",
    "  up, down, j, k       select a task; Page up, Page down, Home and End go farther",
    "  Enter, e             explain it, as `quartier explain` does",
    "  s                    sort: by running, running away from memory, speed-up, contention, memory, name, PID",
    "  p                    pause: nothing is asked of quartierd until it is pressed again",
    "  q, Esc               close this; quit",
    "Nodes",
    "  M FREE, OF           free memory, of how much",
    "  T                    threads that ran or waited for a CPU there",
    "  U                    the part of the time that its CPUs were busy",
    "  RUN, WAIT            CPUs' worth of running, and of waiting for a CPU",
    "  PRESSURE             waiting for its memory, by CPUs per node; it is taken to bear 0.5",
    "Tasks",
    "  THR, HELD            threads that ran or waited, and those held on a node",
    "  LOCAL                the part of its running beside its memory",
    "  REMOTE               remoteness: 0 is all local, 1 all at distance 20",
    "  INTENS               intensity: the part of its running in which it waits for memory",
    "  CONT                 contention degradation factor: what others cost its memory",
    "  SPEED                run-time speedup factor at the best place, as was decided last; -: not asked",
];

/// What has a colour, or none.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    pub has_colour: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    fn local(self, local: Option<f64>) -> Style {
        match local {
            None => Style::new(),
            Some(..FAR) => self.colour(Color::Red),
            Some(FAR..NEAR) => self.colour(Color::Yellow),
            Some(_) => self.colour(Color::Green),
        }
    }
}

/// Draws; gives how far what lies over the tasks can be scrolled.
pub fn draw(frame: &mut Frame<'_>, state: &State, theme: Theme) -> u16 {
    let area = frame.area();
    let layout = state.layout();
    let mut rest = area;
    let mut take = |lines: u16| {
        let part = Rect { height: lines.min(rest.height), ..rest };
        rest = Rect { y: rest.y + part.height, height: rest.height - part.height, ..rest };
        part
    };
    let title = take(layout.title);
    frame.render_widget(title_line(state, theme), title);
    let body = take(layout.nodes + layout.tasks + layout.moves);
    let keys = take(layout.keys);
    let over = match &state.over {
        Over::Nothing => None,
        Over::Help { scroll } => Some((help(), *scroll)),
        Over::Story { story, scroll, .. } => Some((story_lines(story.as_ref()), *scroll)),
    };
    let text = if over.is_some() { KEYS_OVER } else { KEYS };
    frame.render_widget(Line::styled(text, Modifier::DIM), keys);
    if let Some((lines, scroll)) = over {
        return scrolled(frame, body, &lines, scroll);
    }
    let Some(view) = &state.view else { return 0 };
    let words = Words { nodes: &state.nodes, at: view.at, settings: view.settings.as_ref() };
    let split = |from: u16, lines: u16| {
        let y = body.y + from.min(body.height);
        Rect { y, height: lines.min(body.height - from.min(body.height)), ..body }
    };
    nodes(frame, split(0, layout.nodes), view, words);
    tasks(frame, split(layout.nodes, layout.tasks), state, words, theme);
    moves(frame, split(layout.nodes + layout.tasks, layout.moves), view, words);
    0
}

fn title_line(state: &State, theme: Theme) -> Line<'static> {
    let mut parts = Vec::new();
    match &state.link {
        Link::Asking => parts.push(Span::raw("asking quartierd ... ")),
        Link::Fine => {}
        Link::Lost { since, now, why } => {
            let lasted = Nanos((*now - *since).as_nanos() as u64);
            let text = format!("NO ANSWER for {}, asking again: {} ", time(lasted), printable(why));
            let style = theme.colour(Color::Red).add_modifier(Modifier::BOLD);
            parts.push(Span::styled(text, style));
        }
    }
    if state.is_paused {
        parts.push(Span::styled("PAUSED ", Modifier::BOLD));
    }
    if let Some(view) = &state.view {
        let applies = if view.applies { "moves" } else { "only says" };
        let nr = view.processes.len();
        let sort = state.sort.name();
        parts.push(Span::styled("quartierd", Modifier::BOLD));
        parts.push(Span::raw(format!(
            " {} {applies}; {nr} processes by {sort}",
            printable(&view.version)
        )));
    }
    Line::from(parts)
}

/// A line of an area, if it has so many.
fn line_of(area: Rect, nr: usize) -> Option<Rect> {
    let nr = u16::try_from(nr).ok().filter(|nr| *nr < area.height)?;
    Some(Rect { y: area.y + nr, height: 1, ..area })
}

fn heads(frame: &mut Frame<'_>, area: Rect, text: String) {
    if let Some(line) = line_of(area, 0) {
        frame.render_widget(Line::styled(text, Modifier::UNDERLINED), line);
    }
}

fn nodes(frame: &mut Frame<'_>, area: Rect, view: &View, words: Words<'_>) {
    let lines = usize::from(area.height).saturating_sub(1);
    // The last line says how many are not shown.
    let shown = if view.nodes.len() > lines { lines.saturating_sub(1) } else { lines };
    let rows: Vec<_> = view.nodes.iter().take(shown).collect();
    let table = fit(&NODES, words, &rows, usize::from(area.width));
    heads(frame, area, table.heads(&NODES));
    let mut texts: Vec<_> =
        table.cells.iter().map(|cells| table.padded(&NODES, cells).concat()).collect();
    if let more @ 1.. = view.nodes.len() - rows.len() {
        texts.push(format!("and {more} more nodes"));
    }
    for (nr, text) in texts.into_iter().enumerate() {
        if let Some(line) = line_of(area, nr + 1) {
            frame.render_widget(Line::raw(text), line);
        }
    }
}

fn tasks(frame: &mut Frame<'_>, area: Rect, state: &State, words: Words<'_>, theme: Theme) {
    let rows: Vec<_> = state.visible().collect();
    let processes: Vec<_> = rows.iter().map(|(process, _)| *process).collect();
    let table = fit(&TASKS, words, &processes, usize::from(area.width));
    heads(frame, area, table.heads(&TASKS));
    for (nr, ((process, is_selected), cells)) in rows.iter().zip(&table.cells).enumerate() {
        let Some(line) = line_of(area, nr + 1) else { return };
        let style = if *is_selected { Modifier::REVERSED.into() } else { Style::new() };
        let text = Line::from(task_spans(&table, process, cells, theme));
        frame.render_widget(text, line);
        frame.buffer_mut().set_style(line, style);
    }
    if rows.is_empty()
        && let Some(line) = line_of(area, 1)
    {
        frame.render_widget(Line::raw("nobody ran or waited"), line);
    }
}

fn task_spans(
    table: &Fitted,
    process: &ProcessView,
    cells: &[String],
    theme: Theme,
) -> Vec<Span<'static>> {
    let padded = table.padded(&TASKS, cells);
    let style = |at: &usize| match TASKS[*at].head {
        LOCAL => theme.local(process.placed.local),
        _ => Style::new(),
    };
    padded.into_iter().zip(&table.columns).map(|(text, at)| Span::styled(text, style(at))).collect()
}

/// The latest first.
fn moves(frame: &mut Frame<'_>, area: Rect, view: &View, words: Words<'_>) {
    let rows: Vec<_> = view.events.iter().rev().take(usize::from(area.height)).collect();
    let table = fit(&MOVES, words, &rows, usize::from(area.width));
    heads(frame, area, table.heads(&MOVES));
    for (nr, cells) in table.cells.iter().enumerate() {
        if let Some(line) = line_of(area, nr + 1) {
            frame.render_widget(Line::raw(table.padded(&MOVES, cells).concat()), line);
        }
    }
}

fn help() -> Vec<(String, Style)> {
    let style =
        |line: &&str| if line.starts_with(' ') { Style::new() } else { Modifier::BOLD.into() };
    HELP.iter().map(|line| ((*line).to_owned(), style(line))).collect()
}

fn story_lines(story: Option<&story::Story>) -> Vec<(String, Style)> {
    let Some(story) = story else { return vec![("asking ...".to_owned(), Style::new())] };
    let line = |line: &story::Line| match line {
        story::Line::Heading(text) => (text.clone(), Modifier::BOLD.into()),
        story::Line::Text(text) => (text.clone(), Style::new()),
    };
    story.0.iter().map(line).collect()
}

fn scrolled(frame: &mut Frame<'_>, area: Rect, lines: &[(String, Style)], scroll: u16) -> u16 {
    let width = usize::from(area.width);
    let wrapped: Vec<_> = lines
        .iter()
        .flat_map(|(text, style)| wrap(text, width).into_iter().map(|text| (text, *style)))
        .collect();
    let most = wrapped.len().saturating_sub(usize::from(area.height));
    let most = u16::try_from(most).unwrap_or(u16::MAX);
    let from = usize::from(scroll.min(most));
    for (nr, (text, style)) in wrapped.iter().skip(from).enumerate() {
        let Some(line) = line_of(area, nr) else { break };
        frame.render_widget(Line::styled(text.as_str(), *style), line);
    }
    most
}

/// Lines no wider than this, as far as words are not; what goes on is indented further.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let indent = text.len() - text.trim_start_matches(' ').len();
    let further = if (indent + 2) * 2 > width { 0 } else { indent + 2 };
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let line = lines.last_mut().expect("there is one from the start");
        let (used, more) = (Span::raw(line.as_str()).width(), Span::raw(word.trim_end()).width());
        if used + more > width && !line.trim().is_empty() {
            lines.push(format!("{:further$}{word}", ""));
        } else {
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_are_wrapped_at_words_and_what_goes_on_is_indented() {
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("  ab cd ef", 80), ["  ab cd ef"]);
        assert_eq!(wrap("  ab cd ef", 8), ["  ab cd ", "    ef"]);
        assert_eq!(wrap("abcdefgh ij", 4), ["abcdefgh ", "  ij"]);
        assert_eq!(wrap("a b", 0), ["a ", "b"]);
    }
}
