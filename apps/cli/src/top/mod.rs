//! `quartier top`: nodes, tasks and moves of a machine that a `quartierd` looks after, on a terminal.

mod draw;
mod layout;
mod plain;
mod poll;
mod rows;
mod state;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Context, bail};
use crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::daemon_client::{Daemon, Where};
use crate::numbers::number;
use crate::topo::source::print;
use draw::Theme;
use state::{Event, Key, State, Wish};

const EXAMPLES: &str = "\
Examples:
  quartier top                           watch; ? says what the keys do
  quartier top --once                    one frame as a plain table, as into a pipe
  quartier top --json | jq '.processes[] | select(.local < 0.5) | .name'
  ssh -L 7117:localhost:7117 HOST        then `quartier top` shows HOST

It shows what a quartierd sees and does, and changes nothing. NO_COLOR=1 takes the colours away.

Exit status: 0; 2 if no quartierd answers.";

/// Options of `quartier top`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    at: Where,

    /// Milliseconds between two looks
    #[arg(long, value_name = "MS", default_value_t = 1000, allow_negative_numbers = true,
          value_parser = number(100..=60_000u64))]
    interval: u64,

    /// Print one frame as a plain table, as without a terminal
    #[arg(long)]
    once: bool,

    /// Print what there is as JSON
    #[arg(long, conflicts_with = "once")]
    json: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let daemon = Daemon::new(self.at.daemon);
        // A terminal that cannot do more than print.
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if self.json {
            print(&format!("{}\n", serde_json::to_string_pretty(&daemon.view()?)?))?;
        } else if self.once || is_dumb || !stdout().is_terminal() {
            print(&plain::text(&daemon.view()?))?;
        } else {
            // Whether there is one is known before the screen is taken.
            daemon.view()?;
            watch(daemon, Duration::from_millis(self.interval))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Until a key or a signal ends it; then the terminal is as it was.
fn watch(daemon: Daemon, interval: Duration) -> anyhow::Result<()> {
    let (to, events) = channel();
    begin_signals(to.clone())?;
    // Puts the terminal back if anything panics, too.
    let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore());
    let ended = terminal
        .context("cannot take over the terminal; `quartier top --once` needs none")
        .and_then(|mut terminal| {
            let wishes = begin_poll(daemon, interval, to.clone())?;
            begin_keys(to)?;
            show(&mut terminal, &events, &wishes)
        });
    ratatui::restore();
    match ended? {
        // Whoever waits for us learns what ended us.
        Ended::Signal(signal) => Ok(emulate_default_handler(signal)?),
        Ended::NoInput(why) => bail!("the terminal gives no more keys: {why}"),
        Ended::Key => Ok(()),
    }
}

/// What ended it.
enum Ended {
    Key,
    Signal(i32),
    NoInput(String),
}

fn show(
    terminal: &mut DefaultTerminal,
    events: &Receiver<Event>,
    wishes: &Sender<Wish>,
) -> anyhow::Result<Ended> {
    let theme = Theme { has_colour: std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()) };
    let mut state = State::new((0, 0));
    loop {
        terminal.autoresize().context("cannot ask the terminal for its size")?;
        let mut most = 0;
        let drawn = terminal.draw(|frame| {
            state.resize((frame.area().width, frame.area().height));
            most = draw::draw(frame, &state, theme);
        });
        drawn.context("cannot draw on the terminal")?;
        state.bound_scroll(most);
        // Keys that came meanwhile are not drawn one by one.
        let mut next = Some(events.recv()?);
        while let Some(event) = next {
            let wish = match event {
                Event::Signal(signal) => return Ok(Ended::Signal(signal)),
                Event::NoInput(why) => return Ok(Ended::NoInput(why)),
                event => state.update(event),
            };
            match wish {
                Wish::Nothing => {}
                Wish::Quit => return Ok(Ended::Key),
                // If nobody asks the daemon any more, what is shown says so.
                wish => wishes.send(wish).context("nobody asks quartierd any more")?,
            }
            next = events.try_recv().ok();
        }
    }
}

fn begin_signals(to: Sender<Event>) -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]).context("cannot take signals")?;
    let mut forward =
        move || signals.forever().try_for_each(|signal| to.send(Event::Signal(signal)));
    begin("signals", move || _ = forward())
}

fn begin_poll(
    daemon: Daemon,
    interval: Duration,
    to: Sender<Event>,
) -> anyhow::Result<Sender<Wish>> {
    let (wishes, wished) = channel();
    begin("poll", move || poll::poll(&daemon, interval, &wished, &to))?;
    Ok(wishes)
}

fn begin_keys(to: Sender<Event>) -> anyhow::Result<()> {
    begin("keys", move || {
        loop {
            let event = match event::read() {
                Ok(event::Event::Key(key)) => key_of(key).map(Event::Key),
                Ok(event::Event::Resize(..)) => Some(Event::Resized),
                Ok(_) => None,
                Err(error) => Some(Event::NoInput(error.to_string())),
            };
            let is_last = matches!(event, Some(Event::NoInput(_)));
            if event.is_some_and(|event| to.send(event).is_err()) || is_last {
                return;
            }
        }
    })
}

fn begin(name: &str, run: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    Builder::new().name(name.to_owned()).spawn(run).context("cannot begin a thread")?;
    Ok(())
}

fn key_of(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if is_control => Key::Interrupt,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Up | KeyCode::Char('k') => Key::Up,
        KeyCode::Down | KeyCode::Char('j') => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown | KeyCode::Char(' ') => Key::PageDown,
        KeyCode::Home | KeyCode::Char('g') => Key::First,
        KeyCode::End | KeyCode::Char('G') => Key::Last,
        KeyCode::Enter | KeyCode::Char('e') => Key::Explain,
        KeyCode::Char('s') => Key::Sort,
        KeyCode::Char('p') => Key::Pause,
        KeyCode::Char('?' | 'h') => Key::Help,
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        _ => return None,
    })
}
