//! Snapshots of the screen on a test backend, and the effects of keys.
#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

use expect_test::{Expect, expect};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use waypost_core::escape::needs_escape;
use waypost_core::time::Timestamp;
use waypost_core::work::attention::GroupKind::{self, Done, NeedsYou, Queued, Stuck, Working};

use super::model::{ANSWER, Action, Detail, Effect, Key, List, LogPart, Message, Mode, Model, Page, Record, Row, Tone};
use super::view::render;

const NOW_MS: i64 = 1_800_000_000_000;

fn row(group: GroupKind, chip: &str, name: &str, text: &str, minutes: u64) -> Row {
    Row {
        record: Record::Task,
        id: format!("tk_{name}"),
        group: Some(group),
        chip: chip.to_owned(),
        tone: Tone::Plain,
        name: format!("release/{name}"),
        text: text.to_owned(),
        place: String::new(),
        since: Some(Timestamp::from_millis(NOW_MS).minus(minutes * 60_000)),
        actions: Vec::new(),
    }
}

fn action(label: &'static str, command: &[&str]) -> Action {
    Action { label, command: command.iter().map(|word| (*word).to_owned()).collect(), input: None, confirm: None }
}

/// A row that asks a question, with the actions that a task has then.
fn question() -> Row {
    let confirm = Some("Skip release/name? Tasks that wait for it go on without it.".to_owned());
    Row {
        actions: vec![
            Action { input: Some("answer"), ..action(ANSWER, &["task", "answer", "tk_name"]) },
            Action { confirm, ..action("skip", &["task", "skip", "tk_name"]) },
        ],
        tone: Tone::Warn,
        ..row(NeedsYou, "asks", "name", "Which name?", 30)
    }
}

fn page(rows: Vec<Row>) -> Page {
    let count = |group| rows.iter().filter(|row| row.group == Some(group)).count() as u64;
    let totals = [NeedsYou, Stuck, Working, Queued, Done].map(|group| (group, count(group))).to_vec();
    Page {
        list: List::Now,
        rows,
        has_more: false,
        totals,
        repository: "shop".to_owned(),
        now: Timestamp::from_millis(NOW_MS),
        warnings: Vec::new(),
    }
}

fn usual() -> Vec<Row> {
    vec![
        Row { tone: Tone::Bad, ..row(NeedsYou, "dead", "build", "the disk is full", 90) },
        question(),
        row(Stuck, "blocked", "ship", "it waits for build, which is dead", 90),
        Row { tone: Tone::Good, ..row(Working, "working", "draw", "cid works on it", 4) },
        row(Queued, "ready", "test", "priority 2", 5),
        Row { tone: Tone::Dim, ..row(Done, "done", "plan", "Planned five tasks", 60) },
    ]
}

/// A screen with data.
fn screen(size: (u16, u16), page: Page) -> Model {
    let mut model = Model::new(false, size);
    let _ = model.update(Message::Page(Box::new(page)), 1_000);
    model
}

fn buffer(model: &Model, has_color: bool) -> Buffer {
    let (width, height) = model.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let _ = terminal
        .draw(|frame| {
            if let Some(cursor) = render(model, has_color, frame.area(), frame.buffer_mut()) {
                frame.set_cursor_position(cursor);
            }
        })
        .unwrap();
    terminal.backend().buffer().clone()
}

/// Returns the lines of the screen, without spaces at their ends.
fn drawn(model: &Model) -> String {
    let buffer = buffer(model, true);
    let mut text = String::new();
    for line in buffer.content().chunks(usize::from(buffer.area.width)) {
        let mut shown = String::new();
        let mut skipped = 0;
        for cell in line {
            if skipped > 0 {
                skipped -= 1;
                continue;
            }
            skipped = unicode_width::UnicodeWidthStr::width(cell.symbol()).saturating_sub(1);
            shown.push_str(cell.symbol());
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

fn check(model: &Model, expected: &Expect) {
    expected.assert_eq(&drawn(model));
}

fn press(model: &mut Model, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for char in keys.chars() {
        let key = match char {
            '\n' => Key::Enter,
            '\x1b' => Key::Escape,
            '\t' => Key::Tab,
            char => Key::Char(char),
        };
        effects = model.update(Message::Key(key), 1_000);
    }
    effects
}

fn detail(id: &str, fields: &[(&'static str, &str)]) -> Message {
    let fields = fields.iter().map(|(title, text)| (*title, (*text).to_owned())).collect();
    Message::Detail(Detail { id: id.to_owned(), fields })
}

fn log_part(text: &str, end: Option<&str>) -> Message {
    Message::Log(LogPart { job: "jb_1".to_owned(), text: text.to_owned(), end: end.map(str::to_owned) })
}

/// Returns lines with a word and a number.
fn numbered(word: &str, numbers: std::ops::Range<u32>) -> String {
    numbers.map(|number| format!("{word} {number}")).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn the_groups_of_the_status_fit_on_a_small_terminal() {
    let mut model = screen((80, 24), page(usual()));
    let _ = press(&mut model, "j");
    let fields = [("asks", "Which name?\nThe first one is taken."), ("", "Choose a name for the shop.")];
    let _ = model.update(detail("tk_name", &fields), 1_000);
    check(
        &model,
        &expect![[r#"
        way top  shop  2 need you  1 stuck  1 working  1 queued  1 done             live
        Now                                                                          2/6
        Needs you 2
          dead    release/build  the disk is full                             1h 30m ago
        > asks    release/name   Which name?                                     30m ago
        Stuck 1
          blocked release/ship   it waits for build, which is dead            1h 30m ago
        Working 1
          working release/draw   cid works on it                                  4m ago
        Queued 1
          ready   release/test   priority 2                                       5m ago
        Done 1
          done    release/plan   Planned five tasks                               1h ago



        ────────────────────────────────────────────────────────────────────────────────
        release/name  asks  tk_name
        asks: Which name?
              The first one is taken.
        Choose a name for the shop.
        space: answer, skip

        enter: open  l: log  a: answer  space: actions  :  /  g  ?: keys  q: quit
    "#]],
    );
}

#[test]
fn a_wide_terminal_has_the_details_beside_the_list() {
    let mut model = screen((120, 14), page(usual()));
    let _ = press(&mut model, "j");
    let _ = model.update(detail("tk_name", &[("asks", "Which name?"), ("", "Choose a name for the shop.")]), 1_000);
    check(
        &model,
        &expect![[r#"
        way top  shop  2 need you  1 stuck  1 working  1 queued  1 done                                                     live
        Now                                                                                                                  2/6
        Needs you 2                                                             │ release/name  asks  tk_name
          dead    release/build  the disk is full                    1h 30m ago │ asks: Which name?
        > asks    release/name   Which name?                            30m ago │ Choose a name for the shop.
        Stuck 1                                                                 │ space: answer, skip
          blocked release/ship   it waits for build, which is dead   1h 30m ago │
        Working 1                                                               │
          working release/draw   cid works on it                         4m ago │
        Queued 1                                                                │
          ready   release/test   priority 2                              5m ago │
        Done 1                                                                  │
          done    release/plan   Planned five tasks                      1h ago │
        enter: open  l: log  a: answer  space: actions  :  /  g  ?: keys  q: quit
    "#]],
    );
}

#[test]
fn an_empty_store_says_how_to_begin() {
    check(
        &screen((60, 8), page(Vec::new())),
        &expect![[r#"
            way top  shop  idle                                     live
            Now
            nothing to do; to plan some work: way workflow create NAME
            --plan FILE --start



            enter: open  l: log  a: answer  space: actions  :  /  g  ?:…
        "#]],
    );
    check(
        &Model::new(false, (60, 8)),
        &expect![[r#"
            way top                                            reading …
            Now
            reading …




            enter: open  l: log  a: answer  space: actions  :  /  g  ?:…
        "#]],
    );
}

#[test]
fn old_data_stays_on_the_screen_and_says_how_old_it_is() {
    let mut model = screen((60, 12), page(usual()));
    assert!(drawn(&model).lines().next().unwrap().ends_with(" live"));
    let _ = model.update(Message::Tick, 8_000);
    assert!(drawn(&model).lines().next().unwrap().ends_with(" 7s old"), "the store has not answered for too long");
    let _ = model.update(Message::Unchanged, 8_000);
    assert!(drawn(&model).lines().next().unwrap().ends_with(" live"));
    let _ = model.update(Message::Failed("the disk is gone".to_owned()), 9_000);
    let _ = model.update(Message::Tick, 20_000);
    check(
        &model,
        &expect![[r#"
            way top  shop  2 need you  1 stuck  1 working  1 qu… 12s old
            Now                                                      1/6
            cannot read: the disk is gone
            Needs you 2
            > dead    release/build  the disk is full         1h 30m ago
              asks    release/name   Which name?                 30m ago
            Stuck 1
              blocked release/ship   it waits for build, whi… 1h 30m ago
            Working 1
              working release/draw   cid works on it          4m 19s ago
            Queued 1
            enter: open  l: log  a: answer  space: actions  :  /  g  ?:…
        "#]],
    );
    // The store is there again, and the list is read again.
    assert_eq!(model.update(Message::Unchanged, 21_000), [Effect::Load(List::Now)]);
    let _ = model.update(Message::Page(Box::new(page(usual()))), 21_000);
    assert!(drawn(&model).lines().next().unwrap().ends_with(" live"));
    assert!(!drawn(&model).contains("cannot read"));
}

#[test]
fn rows_that_were_not_read_and_warnings_are_mentioned() {
    let model = screen(
        (70, 12),
        Page { has_more: true, warnings: vec!["one line of the ledger is damaged".to_owned()], ..page(usual()) },
    );
    let text = drawn(&model);
    assert!(text.contains("warning: one line of the ledger is damaged"), "{text}");
    let mut model = model;
    let _ = press(&mut model, "G");
    assert!(drawn(&model).contains("only these 6 were read; way status --limit 10000 lists all"), "{}", drawn(&model));
}

#[test]
fn foreign_text_cannot_control_the_terminal_and_wide_characters_keep_the_columns() {
    let hostile = row(NeedsYou, "as\x1bks", "evil\x1b[2J\u{9b}31m", "\u{202e}moc\r\n\x07\u{200b}", 1);
    let wide = row(NeedsYou, "asks", "漢字漢字", "Was heißt das? 👩‍👩‍👧 日本語日本語日本語日本語日本語日本語日本語", 2);
    let mut model = screen((60, 12), page(vec![wide, hostile]));
    let _ = model.update(detail("tk_漢字漢字", &[("title\x1b", "a\tb\x1b[31mred\x1b[0m\x1b]0;x\x07")]), 1_000);
    for cell in buffer(&model, true).content() {
        assert!(!cell.symbol().chars().any(|char| needs_escape(char) && char != '\u{200d}'), "{:?}", cell.symbol());
    }
    check(
        &model,
        &expect![[r#"
            way top  shop  2 need you                               live
            Now                                                      1/2
            Needs you 2
            > asks       release/漢字漢字   Was heißt das? 👩\u{… 2m ago
              as\u{1b}ks release/evil\u{1…  \u{202e}moc\r\n\u{7}… 1m ago






            enter: open  l: log  a: answer  space: actions  :  /  g  ?:…
        "#]],
    );
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    let many = (0..50).map(|number| row(Queued, "ready", &number.to_string(), "priority 2", number)).collect();
    for rows in [usual(), Vec::new(), many] {
        for keys in ["", "?", "g", "/ship", ":", "l", "\n", "j ", "j \n", "j j\n"] {
            for width in [0, 1, 2, 19, 20, 21, 29, 30, 31, 80, 109, 110, 111, 300] {
                for height in [0, 1, 2, 5, 6, 7, 9, 12, 24, 60] {
                    let mut model = screen((width, height), Page { has_more: true, ..page(rows.clone()) });
                    let _ = press(&mut model, keys);
                    let _ = model.update(log_part("one\ntwo\n", None), 1_000);
                    let _ = buffer(&model, true);
                    let _ = model.update(Message::Failed("why ".repeat(60)), 1_000);
                    let _ = model.update(Message::Done(Err("a long error\nwith a hint ".repeat(20))), 1_000);
                    let _ = buffer(&model, true);
                }
            }
        }
    }
}

#[test]
fn without_colour_no_cell_has_one() {
    let mut model = screen((80, 24), page(usual()));
    let colored = |model: &Model, has_color| {
        buffer(model, has_color)
            .content()
            .iter()
            .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
            .count()
    };
    assert!(colored(&model, true) > 0);
    for keys in ["", "j ", "?"] {
        let _ = press(&mut model, keys);
        assert_eq!(colored(&model, false), 0);
    }
}

#[test]
fn keys_move_between_rows_and_new_data_keeps_the_row() {
    let mut model = screen((80, 24), page(usual()));
    assert_eq!(press(&mut model, "jj"), [Effect::LoadDetail(Record::Task, "tk_ship".to_owned())]);
    let _ = press(&mut model, "kkkk");
    assert_eq!(model.selected, 0);
    let _ = press(&mut model, "Gj");
    assert_eq!(model.row().unwrap().id, "tk_plan");
    let _ = press(&mut model, "gg");
    assert_eq!(model.selected, 0);
    let _ = press(&mut model, "jjj");
    assert_eq!(model.row().unwrap().id, "tk_draw");
    let _ = model.update(Message::Page(Box::new(page(usual().split_off(2)))), 2_000);
    assert_eq!((model.row().unwrap().id.as_str(), model.selected), ("tk_draw", 1), "the record stays selected");
    let _ = model.update(Message::Page(Box::new(page(Vec::new()))), 2_000);
    assert_eq!(press(&mut model, "jkG\n la"), []);
    assert_eq!(press(&mut model, "q"), [Effect::Quit]);
}

#[test]
fn a_filter_leaves_the_rows_with_all_words() {
    let mut model = screen((80, 24), page(usual()));
    let _ = press(&mut model, "/DEAD build");
    assert_eq!(model.rows().iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["tk_build", "tk_ship"]);
    let _ = press(&mut model, "\n");
    assert_eq!(model.mode, Mode::List);
    assert!(drawn(&model).contains("/DEAD build"));
    assert!(drawn(&model).contains("Needs you 1\n"), "a heading counts the rows that are left: {}", drawn(&model));
    let _ = press(&mut model, "/nowhere\n");
    assert!(drawn(&model).contains("no row has these words; esc shows all"));
    let _ = press(&mut model, "\x1b");
    assert_eq!(model.rows().len(), 6);
}

#[test]
fn lists_open_with_letters_and_names_and_esc_leads_back() {
    let mut model = screen((80, 24), page(usual()));
    for list in List::ALL {
        assert_eq!(press(&mut model, &format!("g{}", list.key())), [Effect::Load(list)]);
        assert_eq!(press(&mut model, &format!(":{}\n", list.name())), [Effect::Load(list)]);
    }
    let _ = press(&mut model, ":now\n");
    assert_eq!(press(&mut model, ":Issues login page\n"), [Effect::Load(List::Issues)]);
    assert_eq!(model.filter, "login page");
    assert_eq!(press(&mut model, ":ev\n"), [Effect::Load(List::Events)], "the beginning of a word is enough");
    assert_eq!(press(&mut model, "\x1b"), [Effect::Load(List::Issues)]);
    assert_eq!(model.filter, "login page", "esc restores the filter");
    let _ = press(&mut model, "\x1b");
    assert_eq!(press(&mut model, "\x1b"), [Effect::Load(List::Now)]);
    assert_eq!(press(&mut model, "\x1b"), []);
    assert_eq!(press(&mut model, ":w\n"), [], "several words begin so");
    assert!(model.notice.as_ref().unwrap().text.contains("no list or action \"w\"; known: now, task,"));
    assert_eq!(press(&mut model, ":j\t"), []);
    assert_eq!(model.mode, Mode::Command("job ".to_owned()));
    assert_eq!(press(&mut model, "\x1b:q\n"), [Effect::Quit]);
    let old = Page { list: List::Now, ..page(usual()) };
    let _ = press(&mut model, "gj");
    let _ = model.update(Message::Page(Box::new(old)), 3_000);
    assert!(model.rows().is_empty(), "a late answer for another list is not shown");
}

#[test]
fn a_question_is_answered_in_place() {
    let run = |text: &[&str]| {
        let words = ["task", "answer", "tk_name"].iter().chain(text).map(|word| (*word).to_owned());
        vec![Effect::Run(words.collect())]
    };
    let mut model = screen((80, 24), page(usual()));
    assert_eq!(press(&mut model, "a"), []);
    assert_eq!(model.notice.as_ref().unwrap().text, "this row asks nothing");
    let _ = press(&mut model, "ja");
    assert_eq!(press(&mut model, "  \n"), [], "an empty answer is not sent");
    let _ = press(&mut model, "Use q and j");
    assert!(drawn(&model).lines().last().unwrap().starts_with("answer:   Use q and j"), "{}", drawn(&model));
    assert_eq!(press(&mut model, "\n"), run(&["Use q and j"]));
    assert_eq!(press(&mut model, ":answer --force 'it'\n"), run(&["--", "--force 'it'"]), "no text is an option");
    let _ = press(&mut model, "a");
    let _ = model.update(Message::Key(Key::Paste("two\r\nlines\x1b".to_owned())), 1_000);
    assert_eq!(press(&mut model, "\n"), run(&["two  lines"]));
    let _ =
        model.update(Message::Done(Err("error: the task waits for no answer\nhint: way task show".to_owned())), 1_000);
    let text = drawn(&model);
    assert!(text.ends_with("error: the task waits for no answer\nhint: way task show\n"), "{text}");
}

#[test]
fn only_y_confirms_what_could_lose_work() {
    let mut model = screen((80, 24), page(usual()));
    let _ = press(&mut model, "j j\n");
    check(
        &model,
        &expect![[r#"
        way top  shop  2 need you  1 stuck  1 working  1 queued  1 done             live
        Now                                                                          2/6
        Needs you 2
          dead    release/build  the disk is full                             1h 30m ago
        > asks    release/name   Which name?                                     30m ago
        Stuck 1
          blocked release/ship   it waits for build, which is dead            1h 30m ago
        Working ┌ skip ───────────────────────────────────────────────────────┐
          workin│ Skip release/name? Tasks that wait for it go on without it. │   4m ago
        Queued 1│                                                             │
          ready │ way task skip tk_name                                       │   5m ago
        Done 1  └─────────────────────────────────────────────────────────────┘
          done    release/plan   Planned five tasks                               1h ago



        ────────────────────────────────────────────────────────────────────────────────
        release/name  asks  tk_name
        Which name?
        space: answer, skip



        y: do it   any other key: back
    "#]],
    );
    for key in ["\n", "n", "\x1b", " "] {
        assert_eq!(press(&mut model, key), []);
        assert_eq!(model.mode, Mode::List);
        let _ = press(&mut model, " j\n");
    }
    // New data does not exchange the action that was begun.
    let _ = model.update(Message::Page(Box::new(page(Vec::new()))), 2_000);
    assert_eq!(press(&mut model, "y"), [Effect::Run(["task", "skip", "tk_name"].map(str::to_owned).to_vec())]);
}

#[test]
fn the_palette_shows_each_action_with_its_command() {
    let mut model = screen((80, 24), page(usual()));
    let _ = press(&mut model, "j ");
    check(
        &model,
        &expect![[r#"
        way top  shop  2 need you  1 stuck  1 working  1 queued  1 done             live
        Now                                                                          2/6
        Needs you 2
          dead    release/build  the disk is full                             1h 30m ago
        > asks    release/name   Which name?                                     30m ago
        Stuck 1
          blocked release/ship   it waits for build, which is dead            1h 30m ago
        Working 1         ┌ actions ─────────────────────────────────┐
          working release/│ > answer  way task answer tk_name ANSWER │            4m ago
        Queued 1          │   skip    way task skip tk_name          │
          ready   release/└──────────────────────────────────────────┘            5m ago
        Done 1
          done    release/plan   Planned five tasks                               1h ago



        ────────────────────────────────────────────────────────────────────────────────
        release/name  asks  tk_name
        Which name?
        space: answer, skip



        j k: choose   enter: do it   esc: back
    "#]],
    );
    let _ = model.update(Message::Page(Box::new(page(Vec::new()))), 2_000);
    assert!(drawn(&model).contains("way task skip tk_name"), "new data does not change it");
}

#[test]
fn a_screen_that_only_reads_has_no_actions() {
    let mut model = Model::new(true, (80, 24));
    let _ = model.update(Message::Page(Box::new(page(usual()))), 1_000);
    assert_eq!(press(&mut model, "j ja"), []);
    for keys in [" ", "a"] {
        let _ = press(&mut model, keys);
        assert_eq!(
            (&model.mode, model.notice.as_ref().unwrap().text.as_str()),
            (&Mode::List, "this screen only reads")
        );
    }
    assert_eq!(press(&mut model, ":answer yes\n"), []);
    assert!(drawn(&model).lines().next().unwrap().contains("read-only"));
}

#[test]
fn a_log_is_followed_scrolled_and_filtered() {
    let mut model = screen((40, 10), page(usual()));
    assert_eq!(press(&mut model, "l"), [Effect::Follow(Record::Task, "tk_build".to_owned())]);
    assert!(drawn(&model).contains("reading …"));
    let _ = model.update(log_part("", None), 1_000);
    assert!(drawn(&model).contains("no output yet; following"));
    let _ = model.update(log_part("\x1b[32mline 1\x1b[0m\nli", None), 1_000);
    let _ = model.update(log_part("ne 2\n10%\r99%\n", None), 1_000);
    let text = drawn(&model);
    assert!(text.contains("\nline 1\nline 2\n99%\n"), "{text}");
    let _ = press(&mut model, "g");
    assert!(drawn(&model).contains("following"), "nothing is below: {}", drawn(&model));
    let _ = press(&mut model, "G");
    let more = numbered("line", 4..30);
    let _ = model.update(log_part(&more, None), 1_000);
    assert!(drawn(&model).contains("\nline 29\nfollowing\n"), "{}", drawn(&model));
    let _ = press(&mut model, "k");
    assert!(drawn(&model).contains("\n1 line below; G goes to the end\n"), "{}", drawn(&model));
    let _ = press(&mut model, "k");
    let before = drawn(&model);
    assert!(before.contains("\nline 27\n2 lines below; G goes to the end\n"), "{before}");
    let _ = model.update(log_part("line 30\n", None), 1_000);
    assert!(drawn(&model).contains("\nline 27\n3 lines below"), "a reader who scrolled up stays there");
    let _ = press(&mut model, "g");
    assert!(drawn(&model).contains("\nline 1\nline 2\n99%\n"), "{}", drawn(&model));
    let _ = press(&mut model, "/LINE 3\n");
    assert!(drawn(&model).contains("\nline 30\n\n"), "{}", drawn(&model));
    assert!(!drawn(&model).contains("line 29"), "{}", drawn(&model));
    let _ = press(&mut model, "\x1b");
    let _ = model.update(log_part(&format!("{}\n", "long ".repeat(20)), Some("the job is completed")), 1_000);
    check(
        &model,
        &expect![[r#"
        way top  shop  2 need you  1 stuck… live
        Now › log of release/build › jb_1
        line 28
        line 29
        line 30
        long long long long long long long long
        long long long long long long long long
        long long long long
        the job is completed
        j k g G: scroll   /: filter   esc: back…
    "#]],
    );
    assert_eq!(press(&mut model, "\x1b"), [Effect::Unfollow]);
    assert_eq!(model.mode, Mode::List);
    let _ = press(&mut model, "l");
    let _ = model.update(Message::NoLog("no job ran for it yet".to_owned()), 1_000);
    assert_eq!((&model.mode, model.notice.as_ref().unwrap().text.as_str()), (&Mode::List, "no job ran for it yet"));
}

#[test]
fn the_details_of_a_row_can_be_read_to_their_end() {
    let mut model = screen((40, 10), page(usual()));
    let text = numbered("step", 1..20);
    let _ = model.update(detail("tk_build", &[("", &text)]), 1_000);
    let _ = press(&mut model, "\n");
    assert!(drawn(&model).contains("step 1\n"), "{}", drawn(&model));
    assert!(drawn(&model).contains("13 more lines"), "{}", drawn(&model));
    let _ = press(&mut model, "GG");
    assert!(drawn(&model).contains("step 19\n"), "{}", drawn(&model));
    let _ = press(&mut model, "k");
    assert!(drawn(&model).contains("step 13\n"), "{}", drawn(&model));
    let _ = model.update(detail("tk_other", &[("", "another row")]), 1_000);
    assert!(!drawn(&model).contains("another row"), "a late answer for another row is not shown");
    let _ = press(&mut model, "\x1b");
    assert_eq!(model.mode, Mode::List);
}

#[test]
fn the_help_lists_the_keys_on_a_small_terminal() {
    let mut model = screen((80, 24), page(usual()));
    let _ = press(&mut model, "?");
    check(
        &model,
        &expect![[r#"
        way top  shop  2 need you  1 stuck  1 working  1 queued  1 done             live
        Now › keys
          j k ↓ ↑         next and previous row
          g g, G          first and last row
          ctrl-d ctrl-u   half a page down and up
          enter           open the row: its details, or the log of a job
          l               follow the log of the row's job
          a               answer the question of a task
          space           actions of the row, each with its command
          /               show only rows, or lines of a log, with these words
          : LIST WORDS    open a list, with a filter: :issue login
          : ACTION TEXT   run an action of the row: :answer Use the first one
          g n, g t, g w   Now, Tasks, Workflows
          g i, g a, g m   Issues, Agents, Messages
          g s, g j, g e   Workspaces, Jobs, Events
          esc             back: ends the filter, then to the list before
          r, ctrl-l       read again, draw again
          ctrl-z          suspend
          ?               these keys
          q, ctrl-c       quit

          The same as text: way status, way task list, way job list, …

        any key: back
    "#]],
    );
    let _ = press(&mut model, "j");
    assert_eq!(model.mode, Mode::List);
}
