//! Writes Markdown as HTML, and the frame around a page.

use std::fmt::Write as _;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::{Slugs, options};

/// A page with everything around it.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    pub(super) body: &'a str,
    pub(super) side: &'a str,
    /// The way from the page to the root of the book.
    pub(super) up: &'a str,
    pub(super) before: &'a str,
    pub(super) after: &'a str,
}

pub(super) fn page(frame: &Frame) -> String {
    let Frame { title, body, side, up, before, after } = frame;
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title} - Waypost</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"stylesheet\" href=\"{up}style.css\">\n</head>\n<body data-up=\"{up}\">\n\
         <nav class=\"side\"><label>Search <input id=\"search\" type=\"search\" autocomplete=\"off\"></label>\n\
         <ul id=\"found\" hidden></ul>\n<ul id=\"pages\">\n{side}</ul></nav>\n\
         <main>\n{body}<nav class=\"beside\">{before}{after}</nav>\n</main>\n\
         <script src=\"{up}index.js\"></script>\n<script src=\"{up}search.js\"></script>\n</body>\n</html>\n"
    )
}

pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            char => escaped.push(char),
        }
    }
    escaped
}

/// Returns Markdown as HTML. The addresses of links are changed by a function.
pub(super) fn body(text: &str, link: impl Fn(&str) -> String) -> String {
    let mut writer =
        Writer { html: String::new(), ids: Slugs::default(), alignments: Vec::new(), cell: 0, is_head: false };
    let mut events = Parser::new_ext(text, options()).peekable();
    while let Some(event) = events.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                // The id of a heading follows from its text, which comes after its start.
                let mut inner = Vec::new();
                while let Some(event) = events.next_if(|event| !matches!(event, Event::End(TagEnd::Heading(_)))) {
                    inner.push(event);
                }
                let words = inner.iter().filter_map(|event| match event {
                    Event::Text(text) | Event::Code(text) => Some(&**text),
                    _ => None,
                });
                let id = writer.ids.of(&words.collect::<String>());
                writer.push(format_args!("<{level} id=\"{}\">", escape(&id)));
                for event in inner {
                    writer.event(event, &link);
                }
                writer.push(format_args!("</{level}>\n"));
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                let mut words = String::new();
                while let Some(event) = events.next_if(|event| !matches!(event, Event::End(TagEnd::Image))) {
                    if let Event::Text(text) | Event::Code(text) = event {
                        words.push_str(&text);
                    }
                }
                writer.push(format_args!("<img src=\"{}\" alt=\"{}\">", escape(&link(&dest_url)), escape(&words)));
            }
            event => writer.event(event, &link),
        }
    }
    writer.html
}

struct Writer {
    html: String,
    ids: Slugs,
    alignments: Vec<Alignment>,
    /// The column of a table.
    cell: usize,
    is_head: bool,
}

impl Writer {
    fn push(&mut self, text: std::fmt::Arguments) {
        // Writing to a string cannot fail.
        let _ = self.html.write_fmt(text);
    }

    fn event(&mut self, event: Event, link: impl Fn(&str) -> String) {
        match event {
            Event::Start(tag) => self.start(tag, link),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.html.push_str(&escape(&text)),
            Event::Code(text) => self.push(format_args!("<code>{}</code>", escape(&text))),
            Event::Html(text) | Event::InlineHtml(text) => self.html.push_str(&text),
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>\n"),
            Event::Rule => self.html.push_str("<hr>\n"),
            Event::TaskListMarker(done) => {
                let mark = if done { " checked" } else { "" };
                self.push(format_args!("<input type=\"checkbox\" disabled{mark}> "));
            }
            Event::FootnoteReference(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {}
        }
    }

    fn start(&mut self, tag: Tag, link: impl Fn(&str) -> String) {
        match tag {
            Tag::Paragraph => self.html.push_str("<p>"),
            Tag::BlockQuote(_) => self.html.push_str("<blockquote>\n"),
            Tag::CodeBlock(kind) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(language) => language.split(',').next().unwrap_or_default(),
                    CodeBlockKind::Indented => "",
                };
                self.push(format_args!("<pre><code class=\"language-{}\">", escape(language)));
            }
            Tag::List(None) => self.html.push_str("<ul>\n"),
            Tag::List(Some(first)) => self.push(format_args!("<ol start=\"{first}\">\n")),
            Tag::Item => self.html.push_str("<li>"),
            Tag::Table(alignments) => {
                self.alignments = alignments;
                self.html.push_str("<table>");
            }
            Tag::TableHead => {
                (self.is_head, self.cell) = (true, 0);
                self.html.push_str("<thead><tr>");
            }
            Tag::TableRow => {
                self.cell = 0;
                self.html.push_str("<tr>");
            }
            Tag::TableCell => {
                let name = if self.is_head { "th" } else { "td" };
                let is_right = matches!(self.alignments.get(self.cell), Some(Alignment::Right));
                self.push(format_args!("<{name}{}>", if is_right { " class=\"right\"" } else { "" }));
                self.cell += 1;
            }
            Tag::Emphasis => self.html.push_str("<em>"),
            Tag::Strong => self.html.push_str("<strong>"),
            Tag::Link { dest_url, .. } => self.push(format_args!("<a href=\"{}\">", escape(&link(&dest_url)))),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        let text = match tag {
            TagEnd::Paragraph => "</p>\n",
            TagEnd::BlockQuote(_) => "</blockquote>\n",
            TagEnd::CodeBlock => "</code></pre>\n",
            TagEnd::List(false) => "</ul>\n",
            TagEnd::List(true) => "</ol>\n",
            TagEnd::Item => "</li>\n",
            TagEnd::Table => "</tbody></table>\n",
            TagEnd::TableHead => {
                self.is_head = false;
                "</tr></thead><tbody>"
            }
            TagEnd::TableRow => "</tr>\n",
            TagEnd::TableCell if self.is_head => "</th>",
            TagEnd::TableCell => "</td>",
            TagEnd::Emphasis => "</em>",
            TagEnd::Strong => "</strong>",
            TagEnd::Link => "</a>",
            _ => "",
        };
        self.html.push_str(text);
    }
}
