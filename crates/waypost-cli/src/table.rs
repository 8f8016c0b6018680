//! Tables: rows in aligned columns, and one rule about what is shortened.
//!
//! Columns are aligned by display width. Only on a terminal, and only if a row is wider than it, the cells of texts and
//! paths are shortened, the widest column first. Ids, states and numbers never are.

use std::borrow::Cow;
use std::fmt::Display;

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::escape::escape;

pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const PLAIN: Style = Style::new();

/// Width that a shortened column keeps at least.
const MIN_COLUMN_WIDTH: usize = 12;
/// Space between two columns.
const GAP: usize = 2;

/// The part of a text that is left out if a row is too wide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Never,
    Beginning,
    End,
}

/// A cell of a table, with control characters escaped.
pub(crate) struct Cell {
    text: String,
    style: Style,
    cut: Cut,
    is_number: bool,
}

/// Creates a cell.
pub(crate) fn cell(text: impl Display) -> Cell {
    styled(PLAIN, text)
}

/// Creates a cell with a style.
pub(crate) fn styled(style: Style, text: impl Display) -> Cell {
    Cell { text: escape(&text.to_string()).into_owned(), style, cut: Cut::Never, is_number: false }
}

/// Creates a cell whose end is kept when it is shortened, for paths.
pub(crate) fn cell_keeping_end(text: impl Display) -> Cell {
    Cell { cut: Cut::Beginning, ..cell(text) }
}

/// Creates a cell of a number or a size: its column is aligned to the right.
pub(crate) fn number(text: impl Display) -> Cell {
    Cell { is_number: true, ..cell(text) }
}

/// Creates a cell of a text that may be shortened.
pub(crate) fn prose(text: impl Display) -> Cell {
    cell(text).cuttable()
}

/// Creates the header of a table.
pub(crate) fn header<const N: usize>(titles: [&str; N]) -> Vec<Cell> {
    titles.into_iter().map(|title| styled(DIM, title)).collect()
}

impl Cell {
    fn width(&self) -> usize {
        self.text.width()
    }

    /// Lets the cell be shortened.
    pub(crate) fn cuttable(mut self) -> Cell {
        if self.cut == Cut::Never {
            self.cut = Cut::End;
        }
        self
    }

    /// Returns its text in at most this width, with an ellipsis for the part that is left out.
    fn fitted(&self, text: &str, width: usize) -> String {
        if self.cut == Cut::Never || text.width() <= width {
            return text.to_owned();
        }
        let mut left = width.saturating_sub(1);
        let mut fits = |char: &char| {
            let taken = char.width().unwrap_or(0);
            left.checked_sub(taken).inspect(|rest| left = *rest).is_some()
        };
        if self.cut == Cut::Beginning {
            let kept: Vec<char> = text.chars().rev().take_while(&mut fits).collect();
            std::iter::once('…').chain(kept.into_iter().rev()).collect()
        } else {
            let kept: String = text.chars().take_while(&mut fits).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

/// Returns rows as lines. A line fits into `width` if there is one and the cells that may be shortened allow it.
pub(crate) fn lines(rows: &[Vec<Cell>], width: Option<usize>, color: bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let mut texts: Vec<Vec<Cow<'_, str>>> =
        rows.iter().map(|row| row.iter().map(|cell| Cow::from(cell.text.as_str())).collect()).collect();
    if width.is_some_and(|width| total(&column_widths(&texts, columns)) > width) {
        (0..columns).for_each(|column| leave_out_common_tail(rows, &mut texts, column));
    }
    let mut widths = column_widths(&texts, columns);
    let numbers: Vec<bool> = (0..columns).map(|column| cells(column).any(|cell| cell.is_number)).collect();
    if let Some(width) = width {
        // The width that the column needs in any case: that of the cells that are never shortened, such as its title.
        let least = |column: usize| {
            let fixed = cells(column).filter(|cell| cell.cut == Cut::Never).map(Cell::width).max().unwrap_or(0);
            let can_be_cut = cells(column).any(|cell| cell.cut != Cut::Never);
            if can_be_cut { fixed.max(MIN_COLUMN_WIDTH) } else { usize::MAX }
        };
        let least: Vec<usize> = (0..columns).map(least).collect();
        shrink(&mut widths, &least, width);
    }
    let mut out = String::new();
    for (row, texts) in rows.iter().zip(&texts) {
        let mut padding = 0;
        for (((cell, text), width), is_number) in row.iter().zip(texts).zip(&widths).zip(&numbers) {
            let text = cell.fitted(text, *width);
            let rest = width.saturating_sub(text.width());
            // Padding is written only before the next text, so that no line ends in spaces.
            let (before, after) = if *is_number { (rest, 0) } else { (0, rest) };
            padding += before;
            if !text.is_empty() {
                out.push_str(&" ".repeat(padding));
                out.push_str(&paint(cell.style, &text, color));
                padding = 0;
            }
            padding += after + GAP;
        }
        out.push('\n');
    }
    out
}

/// Returns the width of each column.
fn column_widths(texts: &[Vec<Cow<'_, str>>], columns: usize) -> Vec<usize> {
    let width = |column: usize| {
        texts.iter().filter_map(|row| row.get(column)).map(|text: &Cow<'_, str>| text.width()).max().unwrap_or(0)
    };
    (0..columns).map(width).collect()
}

/// Returns the width of a row with columns of these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Leaves out the end that all paths of a column have in common: what differs is worth the space.
fn leave_out_common_tail(rows: &[Vec<Cell>], texts: &mut [Vec<Cow<'_, str>>], column: usize) {
    let is_path = |row: &Vec<Cell>| row.get(column).is_some_and(|cell| cell.cut == Cut::Beginning);
    let paths: Vec<&str> = rows.iter().filter(|row| is_path(row)).map(|row| row[column].text.as_str()).collect();
    let [first, others @ ..] = paths.as_slice() else { return };
    if others.iter().all(|other| other == first) {
        return;
    }
    let tails = first.match_indices('/').map(|(at, _)| &first[at..]);
    let common = tails.filter(|tail| tail.len() > 1).find(|tail| others.iter().all(|other| other.ends_with(tail)));
    let Some(tail) = common else { return };
    for (_, texts) in rows.iter().zip(texts).filter(|(row, _)| is_path(row)) {
        let kept = texts[column].len() - tail.len();
        texts[column] = Cow::from(format!("{}/…", &texts[column][..kept]));
    }
}

/// Narrows columns, the widest first, until all fit into `width` or none can be narrowed further.
fn shrink(widths: &mut [usize], least: &[usize], width: usize) {
    for _ in width..total(widths) {
        let widest = (0..widths.len()).filter(|column| widths[*column] > least[*column]).max_by_key(|at| widths[*at]);
        let Some(widest) = widest else { return };
        widths[widest] -= 1;
    }
}

/// Returns the text in a style, or unchanged without colour.
pub(crate) fn paint(style: Style, text: &str, color: bool) -> String {
    if color && style != PLAIN { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, size: u32, title: &str) -> Vec<Cell> {
        vec![cell(id), number(size), prose(title)]
    }

    fn example() -> Vec<Vec<Cell>> {
        vec![
            header(["ID", "SIZE", "TITLE"]),
            row("way-1", 7, "Fix the login after a timeout of the session"),
            row("way-漢字", 1200, "Ünïcode"),
            row("", 3, ""),
        ]
    }

    #[test]
    fn columns_are_aligned_by_display_width_numbers_to_the_right_and_no_line_ends_in_spaces() {
        assert_eq!(
            lines(&example(), None, false),
            "ID        SIZE  TITLE\n\
             way-1        7  Fix the login after a timeout of the session\n\
             way-漢字  1200  Ünïcode\n             3\n"
        );
    }

    #[test]
    fn only_texts_are_shortened_and_only_if_the_terminal_is_too_narrow() {
        assert_eq!(lines(&example(), Some(60), false), lines(&example(), None, false));
        let narrow = lines(&example(), Some(40), false);
        assert!(narrow.contains("way-1        7  Fix the login after a t…\n"), "{narrow}");
        assert!(narrow.lines().all(|line| line.width() <= 40), "{narrow}");
        let narrowest = lines(&example(), Some(5), false);
        assert!(narrowest.contains("way-漢字  1200  Ünïcode\n") && narrowest.contains("Fix the log…"), "{narrowest}");
    }

    #[test]
    fn the_widest_text_is_shortened_first_and_paths_keep_their_end() {
        let rows = vec![vec![prose("a".repeat(30)), prose("b".repeat(13)), cell_keeping_end("/very/long/path/to/it")]];
        let line = lines(&rows, Some(48), false);
        assert_eq!(line, format!("{}…  {}  …ong/path/to/it\n", "a".repeat(15), "b".repeat(13)));
    }

    #[test]
    fn the_end_that_all_paths_have_in_common_is_left_out_on_a_narrow_terminal() {
        let paths = ["/home/me/.waypost/workspaces/jb_1/workspace", "/home/me/.waypost/workspaces/jb_2/workspace"];
        let rows: Vec<Vec<Cell>> = paths.map(|path| vec![cell("x"), cell_keeping_end(path)]).into();
        assert!(lines(&rows, Some(80), false).contains(paths[0]));
        assert_eq!(lines(&rows, Some(22), false), "x  …/workspaces/jb_1/…\nx  …/workspaces/jb_2/…\n");
    }

    #[test]
    fn colour_does_not_change_the_alignment() {
        let rows = vec![vec![styled(DIM, "a"), cell("b")], vec![cell("ccc"), cell("d")]];
        assert_eq!(lines(&rows, None, true), "\u{1b}[2ma\u{1b}[0m    b\nccc  d\n");
    }
}
