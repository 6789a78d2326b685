//! What `top` shows, and what becomes of it when something happens. Knows no terminal and no daemon.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use quartier_decide::reporter::view::{Explanation, ProcessView, View};
use quartier_model::{NodeOsId, TaskId};

use super::layout::Layout;
use super::rows;
use crate::explain::Origin;
use crate::explain::story::Story;

/// A key, by what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Explain,
    Sort,
    Pause,
    Help,
    /// Closes what lies over the tasks; else ends.
    Quit,
    /// Ends.
    Interrupt,
}

/// All that happens.
#[derive(Debug)]
pub enum Event {
    Key(Key),
    Resized,
    /// The daemon was asked, and so long it has been since `top` began.
    View(Duration, Result<Box<View>, String>),
    Explained(u32, Result<Box<Explanation>, String>),
    /// A signal that ends it.
    Signal(i32),
    /// No key can be read any more.
    NoInput(String),
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    /// A process is explained again and again from now on; `None`: no longer.
    Explain(Option<u32>),
    /// The daemon is asked nothing from now on; or again.
    Pause(bool),
    Quit,
}

/// By what tasks are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Running,
    Away,
    Speedup,
    Contention,
    Memory,
    Name,
    Pid,
}

/// Whether the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    Asking,
    Fine,
    Lost { since: Duration, now: Duration, why: String },
}

/// What lies over the tasks.
#[derive(Debug, PartialEq, Eq)]
pub enum Over {
    Nothing,
    Help { scroll: u16 },
    Story { pid: u32, story: Option<Story>, scroll: u16 },
}

#[derive(Debug)]
pub struct State {
    pub view: Option<Box<View>>,
    /// The kernel's numbers of its nodes.
    pub nodes: Vec<NodeOsId>,
    pub link: Link,
    pub sort: Sort,
    /// Its processes as they are sorted.
    order: Vec<usize>,
    selected: Option<TaskId>,
    /// Where that is in the order.
    at: usize,
    /// The first that is on the screen.
    offset: usize,
    pub is_paused: bool,
    pub over: Over,
    /// Columns and lines.
    size: (u16, u16),
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Running => Self::Away,
            Self::Away => Self::Speedup,
            Self::Speedup => Self::Contention,
            Self::Contention => Self::Memory,
            Self::Memory => Self::Name,
            Self::Name => Self::Pid,
            Self::Pid => Self::Running,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Away => "running away from memory",
            Self::Speedup => "speed-up elsewhere",
            Self::Contention => "contention on its memory",
            Self::Memory => "memory",
            Self::Name => "name",
            Self::Pid => "PID",
        }
    }

    /// Unknown comes last.
    pub fn compare(self, a: &ProcessView, b: &ProcessView) -> Ordering {
        let id = |process: &ProcessView| process.placed.factors.process;
        let most = |of: fn(&ProcessView) -> Option<f64>| match (of(a), of(b)) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        let by = match self {
            Self::Running => most(|process| Some(demand(process))),
            Self::Away => most(|process| Some(demand(process) * (1.0 - process.placed.local?))),
            Self::Speedup => most(|process| process.decided.as_ref()?.speedup),
            Self::Contention => most(|process| process.placed.factors.contention),
            Self::Memory => Reverse(a.resident).cmp(&Reverse(b.resident)),
            Self::Name => a.name.cmp(&b.name),
            Self::Pid => Ordering::Equal,
        };
        by.then_with(|| id(a).cmp(&id(b)))
    }
}

fn demand(process: &ProcessView) -> f64 {
    process.placed.factors.running + process.placed.factors.waiting
}

impl State {
    pub fn new(size: (u16, u16)) -> Self {
        Self {
            view: None,
            nodes: Vec::new(),
            link: Link::Asking,
            sort: Sort::Running,
            order: Vec::new(),
            selected: None,
            at: 0,
            offset: 0,
            is_paused: false,
            over: Over::Nothing,
            size,
        }
    }

    /// Something happened.
    pub fn update(&mut self, event: Event) -> Wish {
        match event {
            Event::Key(key) => return self.key(key),
            Event::Resized => {}
            Event::View(_, Ok(view)) => self.show(view),
            Event::View(now, Err(why)) => {
                let since = match self.link {
                    Link::Lost { since, .. } => since,
                    _ => now,
                };
                self.link = Link::Lost { since, now, why };
            }
            Event::Explained(number, explained) => self.explained(number, explained),
            Event::Signal(_) | Event::NoInput(_) => return Wish::Quit,
        }
        Wish::Nothing
    }

    /// The terminal has this many columns and lines now.
    pub fn resize(&mut self, size: (u16, u16)) {
        self.size = size;
        self.scroll();
    }

    pub fn layout(&self) -> Layout {
        let (nodes, moves) = match &self.view {
            Some(view) => (view.nodes.len(), view.events.len()),
            None => (0, 0),
        };
        Layout::of(self.size, nodes, moves)
    }

    /// Those processes that are on the screen, and whether they are selected.
    pub fn visible(&self) -> impl Iterator<Item = (&ProcessView, bool)> {
        let all = self.view.as_ref().map_or(&[][..], |view| &view.processes[..]);
        let rows = self.order.iter().enumerate().skip(self.offset).take(self.rows());
        rows.map(|(nr, &at)| (&all[at], nr == self.at))
    }

    fn rows(&self) -> usize {
        usize::from(self.layout().tasks.saturating_sub(1))
    }

    fn show(&mut self, view: Box<View>) {
        self.link = Link::Fine;
        // What was asked for before the pause came too late.
        if self.is_paused && self.view.is_some() {
            return;
        }
        self.nodes = rows::numbers(&view);
        self.view = Some(view);
        self.arrange();
    }

    /// Sorts anew; who is selected stays it, and if it is gone its neighbour is.
    fn arrange(&mut self) {
        let Some(view) = &self.view else { return };
        let all = &view.processes;
        self.order = (0..all.len()).collect();
        self.order.sort_by(|&a, &b| self.sort.compare(&all[a], &all[b]));
        let is_it = |&at: &usize| Some(all[at].placed.factors.process) == self.selected;
        let at = self.order.iter().position(is_it).unwrap_or(self.at);
        self.select(at);
    }

    fn select(&mut self, at: usize) {
        self.at = at.min(self.order.len().saturating_sub(1));
        let process = self.view.as_ref().zip(self.order.get(self.at));
        self.selected = process.map(|(view, &at)| view.processes[at].placed.factors.process);
        self.scroll();
    }

    /// Keeps the selected one on the screen.
    fn scroll(&mut self) {
        let rows = self.rows().max(1);
        let last = self.order.len().saturating_sub(rows);
        self.offset = self.offset.clamp((self.at + 1).saturating_sub(rows), self.at).min(last);
    }

    fn key(&mut self, key: Key) -> Wish {
        let page = self.rows().max(1);
        match (key, &mut self.over) {
            (Key::Interrupt, _) | (Key::Quit, Over::Nothing) => return Wish::Quit,
            (Key::Quit, over) => {
                let was_story = matches!(over, Over::Story { .. });
                *over = Over::Nothing;
                return if was_story { Wish::Explain(None) } else { Wish::Nothing };
            }
            (Key::Pause, _) => {
                self.is_paused = !self.is_paused;
                return Wish::Pause(self.is_paused);
            }
            (key, Over::Help { scroll } | Over::Story { scroll, .. }) => {
                let page = self.size.1.saturating_sub(3).max(1);
                *scroll = match key {
                    Key::Up => scroll.saturating_sub(1),
                    Key::Down => scroll.saturating_add(1),
                    Key::PageUp => scroll.saturating_sub(page),
                    Key::PageDown => scroll.saturating_add(page),
                    Key::First => 0,
                    Key::Last => u16::MAX,
                    _ => *scroll,
                };
            }
            (Key::Up, _) => self.select(self.at.saturating_sub(1)),
            (Key::Down, _) => self.select(self.at + 1),
            (Key::PageUp, _) => self.select(self.at.saturating_sub(page)),
            (Key::PageDown, _) => self.select(self.at + page),
            (Key::First, _) => self.select(0),
            (Key::Last, _) => self.select(usize::MAX),
            (Key::Sort, _) => {
                self.sort = self.sort.next();
                self.arrange();
            }
            (Key::Help, over) => *over = Over::Help { scroll: 0 },
            (Key::Explain, over) => {
                let Some(TaskId { id: pid, .. }) = self.selected else { return Wish::Nothing };
                *over = Over::Story { pid, story: None, scroll: 0 };
                return Wish::Explain(Some(pid));
            }
        }
        Wish::Nothing
    }

    fn explained(&mut self, number: u32, explained: Result<Box<Explanation>, String>) {
        // It may have been closed meanwhile, or another one opened.
        let Over::Story { pid, story, .. } = &mut self.over else { return };
        if *pid != number {
            return;
        }
        match explained {
            Ok(explanation) => *story = Some(Story::of(&explanation, number, &Origin::Live)),
            Err(why) if story.is_none() => *story = Some(Story::sentence(why)),
            // What was known stays; that nobody answers is said above it.
            Err(_) => {}
        }
    }

    /// Lines that lie over the tasks go no farther than their end.
    pub fn bound_scroll(&mut self, most: u16) {
        if let Over::Help { scroll } | Over::Story { scroll, .. } = &mut self.over {
            *scroll = most.min(*scroll);
        }
    }
}
