//! What becomes of the state when something happens, and what is drawn of it.

use std::sync::mpsc::channel;
use std::time::Duration;

use quartier_decide::reporter::view::{ProcessView, View};
use quartier_model::ProcessSeen;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use super::draw::{Theme, draw};
use super::state::{Event, Key, Link, Over, Sort, State, Wish};
use super::{plain, poll};
use crate::daemon_client::Daemon;
use crate::fake_daemon::{FakeDaemon, ok, with_status};
use crate::made_up;

const SIZE: (u16, u16) = (100, 30);

fn shows(view: View) -> Event {
    Event::View(Duration::ZERO, Ok(Box::new(view)))
}

fn state_of(view: View) -> State {
    let mut state = State::new(SIZE);
    state.update(shows(view));
    state
}

/// So many processes; the one with the highest number runs most.
fn crowd(nr: u32) -> Vec<ProcessSeen> {
    let process = |nr: u32| {
        let mut process = made_up::process(10 * nr, "crowd", nr % 4, 0);
        process.threads.iter_mut().for_each(|thread| thread.ran.0 = u64::from(nr) * 1000);
        process
    };
    (1..=nr).map(process).collect()
}

fn view_of(nodes: usize, processes: Vec<ProcessSeen>) -> View {
    made_up::view_of(nodes, processes).0
}

fn pid(process: &ProcessView) -> u32 {
    process.placed.factors.process.id
}

fn selected(state: &State) -> Option<u32> {
    state.visible().find(|(_, is_selected)| *is_selected).map(|(process, _)| pid(process))
}

fn pids(state: &State) -> Vec<u32> {
    state.visible().map(|(process, _)| pid(process)).collect()
}

fn press(state: &mut State, keys: &[Key]) -> Wish {
    keys.iter().map(|key| state.update(Event::Key(*key))).last().unwrap()
}

fn screen(state: &mut State, size: (u16, u16), has_colour: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    state.resize(size);
    let mut most = 0;
    terminal.draw(|frame| most = draw(frame, state, Theme { has_colour })).unwrap();
    state.bound_scroll(most);
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..area.height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn text(state: &mut State, size: (u16, u16)) -> String {
    lines(&screen(state, size, false)).join("\n")
}

#[test]
fn who_is_selected_stays_it_however_tasks_are_sorted() {
    let mut state = state_of(made_up::view());
    assert_eq!(pids(&state), [100, 200, 300], "all run as much");
    press(&mut state, &[Key::Down]);
    assert_eq!(selected(&state), Some(200));
    let mut orders = vec![pids(&state)];
    for _ in 0..7 {
        assert_eq!(press(&mut state, &[Key::Sort]), Wish::Nothing);
        assert_eq!(selected(&state), Some(200), "{:?}", state.sort);
        orders.push(pids(&state));
    }
    assert_eq!(state.sort, Sort::Running, "round");
    // Of 300 neither where its memory is nor how much there is of it is known; its name begins with an escape.
    assert_eq!(orders[1..5], [[100, 200, 300]; 4]);
    assert_eq!(orders[5..7], [[300, 100, 200], [100, 200, 300]]);
}

#[test]
fn who_runs_most_comes_first_and_who_is_unknown_last() {
    let state = state_of(view_of(4, crowd(3)));
    assert_eq!(pids(&state), [30, 20, 10]);
    let mut processes = crowd(3);
    processes[2].sample = None;
    let mut state = state_of(view_of(4, processes));
    press(&mut state, &[Key::Sort]);
    assert_eq!((state.sort, pids(&state)), (Sort::Away, vec![20, 10, 30]));
}

#[test]
fn a_selected_task_that_ends_leaves_its_place_to_its_neighbour() {
    let mut state = state_of(view_of(4, crowd(5)));
    press(&mut state, &[Key::Down, Key::Down]);
    assert_eq!(selected(&state), Some(30));
    let without_it = crowd(5).into_iter().filter(|process| process.id.id != 30).collect();
    state.update(shows(view_of(4, without_it)));
    assert_eq!((selected(&state), pids(&state)), (Some(20), vec![50, 40, 20, 10]));
    // Another process with the number of one that was selected is another one.
    let mut reused = crowd(5);
    reused[1].id.start_ticks = 2;
    state.update(shows(view_of(4, reused)));
    assert_eq!(selected(&state), Some(30), "the third still");
    state.update(shows(view_of(4, Vec::new())));
    assert_eq!(selected(&state), None);
    assert_eq!(press(&mut state, &[Key::Down, Key::Last, Key::Explain]), Wish::Nothing);
    state.update(shows(view_of(4, crowd(2))));
    assert_eq!(selected(&state), Some(20));
}

#[test]
fn the_selected_one_of_thousands_is_on_the_screen() {
    let mut state = state_of(view_of(4, crowd(5000)));
    for size in [SIZE, (20, 5), (300, 100), (80, 3)] {
        state.resize(size);
        for key in [
            Key::Last,
            Key::PageUp,
            Key::Up,
            Key::First,
            Key::PageDown,
            Key::PageDown,
            Key::Down,
            Key::Down,
        ] {
            press(&mut state, &[key]);
            assert!(selected(&state).is_some(), "{size:?} {key:?}");
            let shown = pids(&state).len();
            assert_eq!(shown, usize::from(state.layout().tasks - 1), "{size:?} {key:?}");
        }
        press(&mut state, &[Key::Last]);
        assert_eq!(selected(&state), Some(10), "who runs least");
        press(&mut state, &[Key::First]);
        assert_eq!(selected(&state), Some(50_000));
    }
}

#[test]
fn an_explanation_is_shown_while_it_is_open_and_no_other() {
    let mut state = state_of(made_up::view());
    assert_eq!(press(&mut state, &[Key::Explain]), Wish::Explain(Some(100)));
    assert!(text(&mut state, SIZE).contains("asking ..."));
    let explained = |number| Event::Explained(number, Ok(Box::new(made_up::explanation(number))));
    state.update(explained(200));
    assert!(text(&mut state, SIZE).contains("asking ..."), "that was of another");
    state.update(explained(100));
    assert!(text(&mut state, SIZE).contains("far, process 100"));
    // What was known stays if nobody answers any more.
    state.update(Event::Explained(100, Err("gone".to_owned())));
    assert!(text(&mut state, SIZE).contains("far, process 100"));
    assert_eq!(press(&mut state, &[Key::Quit]), Wish::Explain(None));
    state.update(explained(100));
    assert_eq!(state.over, Over::Nothing);
    press(&mut state, &[Key::Explain]);
    state.update(Event::Explained(100, Err("nobody there".to_owned())));
    assert!(text(&mut state, SIZE).contains("nobody there"));
    press(&mut state, &[Key::Quit]);
    assert_eq!(press(&mut state, &[Key::Quit]), Wish::Quit);
}

#[test]
fn a_text_is_scrolled_to_its_end_and_no_farther() {
    let mut state = state_of(made_up::view());
    press(&mut state, &[Key::Help]);
    let size = (40, 8);
    assert!(text(&mut state, size).contains("Keys\n"));
    press(&mut state, &[Key::Last]);
    let last = text(&mut state, size);
    assert!(last.contains("not asked") && !last.contains("Keys\n"), "{last}");
    let Over::Help { scroll } = state.over else { panic!() };
    press(&mut state, &[Key::Up]);
    assert_eq!(state.over, Over::Help { scroll: scroll - 1 }, "at once");
    assert_eq!(press(&mut state, &[Key::Interrupt]), Wish::Quit);
}

#[test]
fn while_it_is_paused_nothing_changes() {
    let mut state = state_of(made_up::view());
    assert_eq!(press(&mut state, &[Key::Pause]), Wish::Pause(true));
    state.update(shows(view_of(4, crowd(9))));
    assert_eq!(pids(&state), [100, 200, 300], "it was asked for before");
    assert!(text(&mut state, SIZE).starts_with("PAUSED "));
    assert_eq!(press(&mut state, &[Key::Pause]), Wish::Pause(false));
    state.update(shows(view_of(4, crowd(9))));
    assert_eq!(pids(&state).len(), 9);
}

#[test]
fn that_nobody_answers_is_said_with_how_long_and_forgotten_when_somebody_does() {
    let mut state = state_of(made_up::view());
    for seconds in [10, 15] {
        let why = "no quartierd\u{1b} answers".to_owned();
        state.update(Event::View(Duration::from_secs(seconds), Err(why)));
    }
    let told = text(&mut state, SIZE);
    assert!(told.starts_with("NO ANSWER for 5.0 s, asking again: no quartierd  answers"), "{told}");
    assert!(told.contains("far"), "what was known stays");
    state.update(shows(made_up::view()));
    assert_eq!(state.link, Link::Fine);
    assert!(text(&mut state, SIZE).starts_with("quartierd 1.2.3 moves; 3 processes by running"));
}

#[test]
fn a_screen_shows_nodes_tasks_and_moves() {
    let mut state = state_of(made_up::view());
    let told = text(&mut state, (120, 24));
    let all: Vec<_> = told.lines().collect();
    assert_eq!(
        all[1..6],
        [
            "NODE  CPUS   M FREE  OF  T        U   RUN  WAIT  PRESSURE",
            "   0     2       1G  1G  2     38 %  1.00  0.50      0.00",
            "   1     2       1G  1G  0  unknown  0.00  0.00      0.17",
            "   2     2       1G  1G  2  unknown  1.00  0.50      0.17",
            "   3     2  unknown  1G  2  unknown  1.00  0.50      0.00",
        ],
        "{told}"
    );
    let far = "100  far             2     0  1.00  0.50      64M      0 %     1.00     0.33     0.00   2.00  0        gather: 2 threads";
    assert!(all[7].starts_with(far), "{told}");
    assert!(
        all[9].starts_with("300   [2Jstrange     2     0"),
        "its name steers no terminal: {told}"
    );
    let moves = all.iter().position(|line| line.contains("MOVE")).unwrap();
    assert!(all[moves + 1].ends_with("far   2 threads held, 60M moved, 4M could not be"), "{told}");
    assert!(all[moves + 2].contains("decided to gather: 2 threads to node 1"), "{told}");
    assert!(all[23].starts_with("q quit"), "{told}");
}

#[test]
fn the_smallest_terminals_show_what_matters_most() {
    let mut state = state_of(made_up::view());
    press(&mut state, &[Key::Last]);
    let told = text(&mut state, (20, 5));
    let expected = "quartierd 1.2.3 move\nPID  NAME\n200  placed\n300   [2Jstrange\nq quit  \u{2191}\u{2193} select  e";
    assert_eq!(told, expected);
}

#[test]
fn every_size_is_drawn_with_any_number_of_tasks_nodes_and_anything_above_them() {
    for (nodes, tasks) in [(1, 0), (4, 3), (64, 10), (4, 5000)] {
        let mut state = State::new((0, 0));
        for step in 0..5 {
            match step {
                0 => {}
                1 => _ = state.update(shows(view_of(nodes, crowd(tasks)))),
                2 => _ = press(&mut state, &[Key::Last, Key::Help, Key::Last]),
                3 => _ = press(&mut state, &[Key::Quit, Key::Explain, Key::PageDown]),
                _ => {
                    let explanation = Ok(Box::new(made_up::explanation(100)));
                    state.update(Event::Explained(10, explanation));
                }
            }
            for size in [(0, 0), (1, 1), (1, 50), (200, 1), (3, 2), (20, 5), (80, 24), (300, 100)] {
                screen(&mut state, size, true);
            }
        }
    }
}

#[test]
fn without_colour_nothing_has_one_and_the_selected_one_is_still_told() {
    let mut state = state_of(made_up::view());
    state.update(Event::View(Duration::ZERO, Err("gone".to_owned())));
    let has_colour = |buffer: &Buffer| {
        buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    let plain = screen(&mut state, SIZE, false);
    assert!(!has_colour(&plain));
    assert!(plain.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
    assert!(has_colour(&screen(&mut state, SIZE, true)));
}

#[test]
fn a_plain_table_has_everything_in_full() {
    let told = anstream::adapter::strip_str(&plain::text(&view_of(64, crowd(500)))).to_string();
    assert!(told.starts_with(
        "quartierd 1.2.3: moves threads and pages; 500 processes ran or waited in the last 1.0 s\n"
    ));
    assert!(told.lines().any(|line| line.starts_with("  63     2")), "{told}");
    let (tasks, moves) = told.split_once("  MOVE\n").unwrap();
    assert_eq!(tasks.lines().filter(|line| line.contains("  crowd  ")).count(), 500);
    assert_eq!(moves.lines().count(), 20, "the latest");
    let told = plain::text(&made_up::view());
    assert!(told.contains(" [2Jstrange ") && told.contains("  RUNS ON  "), "{told}");
}

/// Whoever waits for this long has lost.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_daemon_is_asked_again_and_again_but_not_in_a_pause() {
    let view = serde_json::to_string(&made_up::view()).unwrap();
    let explanation = serde_json::to_string(&made_up::explanation(100)).unwrap();
    let fake = FakeDaemon::answering(move |path| match path {
        "/view.json" => ok(&view),
        "/processes/100" => ok(&explanation),
        _ => with_status("404 Not Found", ""),
    });
    let ((wish, wishes), (to, events)) = (channel(), channel());
    let daemon = Daemon::new(fake.at);
    let poll = std::thread::spawn(move || {
        poll::poll(&daemon, Duration::from_millis(1), &wishes, &to);
    });
    for _ in 0..3 {
        assert!(matches!(events.recv_timeout(SOON), Ok(Event::View(_, Ok(_)))));
    }
    wish.send(Wish::Pause(true)).unwrap();
    // In a pause it is asked if somebody wants it explained, and nothing else: two answers in a row are that.
    wish.send(Wish::Explain(Some(100))).unwrap();
    wish.send(Wish::Explain(Some(100))).unwrap();
    let is_explained = |event: &Event| matches!(event, Event::Explained(100, Ok(_)));
    while !is_explained(&events.recv_timeout(SOON).unwrap()) {}
    assert!(is_explained(&events.recv_timeout(SOON).unwrap()));
    wish.send(Wish::Pause(false)).unwrap();
    assert!(matches!(events.recv_timeout(SOON), Ok(Event::View(_, Ok(_)))));
    assert!(is_explained(&events.recv_timeout(SOON).unwrap()), "that is open still");
    wish.send(Wish::Quit).unwrap();
    poll.join().unwrap();
}
