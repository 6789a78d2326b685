//! How many lines each part of the screen has; the smaller the terminal, the fewer parts.

/// Lines from the top down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    pub title: u16,
    /// With their heads, as those below.
    pub nodes: u16,
    pub tasks: u16,
    pub moves: u16,
    pub keys: u16,
}

const NODES_FROM: u16 = 10;
const MOVES_FROM: u16 = 16;
const KEYS_FROM: u16 = 4;
const MOVES_MAX: u16 = 10;

impl Layout {
    /// Of a terminal with so many columns and lines.
    pub fn of((_, lines): (u16, u16), nr_nodes: usize, nr_moves: usize) -> Self {
        let small = |nr: usize| u16::try_from(nr).unwrap_or(u16::MAX).saturating_add(1);
        let title = lines.min(1);
        let keys = u16::from(lines >= KEYS_FROM);
        let nodes = if lines >= NODES_FROM { small(nr_nodes).min(lines / 3) } else { 0 };
        let moves = match nr_moves {
            0 => 0,
            _ if lines < MOVES_FROM => 0,
            nr => small(nr).min(lines / 4).min(MOVES_MAX),
        };
        let tasks = lines - title - keys - nodes - moves;
        Self { title, nodes, tasks, moves, keys }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_belongs_to_one_part_and_tasks_have_most_of_them() {
        for lines in (0..=300).chain([u16::MAX]) {
            for (nodes, moves) in [(0, 0), (1, 1), (4, 512), (1024, 0), (1 << 40, 1 << 40)] {
                let Layout { title, nodes, tasks, moves, keys } =
                    Layout::of((80, lines), nodes, moves);
                assert_eq!(title + nodes + tasks + moves + keys, lines);
                assert!(tasks >= (lines / 3).min(2), "{lines}: {tasks}");
            }
        }
    }
}
