//! Columns that line up.

use std::fmt::Write;

use super::DIM;

/// A table under construction.
pub(super) struct Table {
    names: Vec<String>,
    is_right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With columns of these names, each behind `<` or `>`: the side that its cells are set to.
    pub(super) fn new(columns: &[&str]) -> Self {
        Self {
            names: columns.iter().map(|column| column[1..].to_owned()).collect(),
            is_right: columns.iter().map(|column| column.starts_with('>')).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(super) fn print(&self, out: &mut String) {
        let names = self.line(&self.names);
        let _ = writeln!(out, "{DIM}{names}{DIM:#}");
        for row in &self.rows {
            let _ = writeln!(out, "{}", self.line(row));
        }
    }

    fn line(&self, cells: &[String]) -> String {
        let mut line = " ".to_owned();
        for (column, cell) in cells.iter().enumerate() {
            let width = self.width(column);
            let _ = match self.is_right[column] {
                true => write!(line, " {cell:>width$} "),
                false => write!(line, " {cell:<width$} "),
            };
        }
        line.trim_end().to_owned()
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| &row[column]).chain([&self.names[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}
