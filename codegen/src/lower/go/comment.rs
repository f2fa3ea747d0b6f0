//! Comments of the schema as Go comments. A comment directly above a declaration is a doc comment, and gofmt lays those out: lists,
//! code blocks and headings get one form, `go/doc/comment`'s, which is followed here. Text itself is never changed.

use prost_types::source_code_info::Location;

/// A comment directly above a declaration, in gofmt's layout.
pub(super) fn doc(text: &str) -> Vec<String> {
    layout(&lines(text))
}

/// A comment behind something in its line; more than one line has no place there.
pub(super) fn trailing(location: Option<&Location>) -> Option<String> {
    let text = location?.trailing_comments.as_deref().filter(|text| !text.is_empty())?;
    let lines = lines(text);
    let [line] = lines.as_slice() else { return None };
    Some(format!("//{line}").trim_end().to_owned())
}

/// A comment that stands for itself: its lines, as they are.
pub(super) fn standalone(text: &str) -> Vec<String> {
    lines(text).into_iter().map(|line| format!("//{line}").trim_end().to_owned()).collect()
}

/// The text's lines without comment marks.
fn lines(text: &str) -> Vec<String> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.split('\n').map(|line| line.replace('\r', "")).collect()
}

fn layout(lines: &[String]) -> Vec<String> {
    let (directives, text): (Vec<&String>, Vec<&String>) = lines.iter().partition(|line| is_directive(line));
    let text: Vec<&str> = text.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    if text.is_empty() {
        return directives.iter().map(|line| format!("//{line}").trim_end().to_owned()).collect();
    }
    let mut out: Vec<String> = Document::parse(&text).print().iter().map(|line| mark(line)).collect();
    if !directives.is_empty() {
        out.push("//".to_owned());
        out.extend(directives.iter().map(|line| format!("//{line}").trim_end().to_owned()));
    }
    out
}

fn mark(line: &str) -> String {
    let marked = match line.chars().next() {
        None => "//".to_owned(),
        Some('\t') => format!("//{line}"),
        Some(_) => format!("// {line}"),
    };
    marked.trim_end().to_owned()
}

/// `go:build`, `line 7` and the like.
fn is_directive(line: &str) -> bool {
    if ["line ", "extern ", "export "].iter().any(|word| line.starts_with(word)) {
        return true;
    }
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    line.split_once(':').is_some_and(|(before, after)| word(before) && after.get(..1).is_some_and(word))
}

struct Document {
    blocks: Vec<Block>,
    links: Vec<LinkDefinition>,
}

enum Block {
    Paragraph(Vec<String>),
    Heading(String),
    Code(Vec<String>),
    List { items: Vec<Item>, blank_before: bool, blank_between: bool },
}

struct Item {
    number: String,
    paragraphs: Vec<Vec<String>>,
}

struct LinkDefinition {
    text: String,
    url: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Heading,
    List,
    OldHeading,
    Paragraph,
}

struct Span {
    start: usize,
    end: usize,
    kind: Kind,
}

impl Document {
    fn parse(lines: &[&str]) -> Document {
        let lines = unindent(lines);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut document = Document { blocks: Vec::new(), links: Vec::new() };
        let mut previous_end = 0;
        for span in spans(&lines) {
            let text = &lines[span.start..span.end];
            let block = match span.kind {
                Kind::List => Some(document.list(text, previous_end < span.start)),
                Kind::Code => Some(Block::Code(unindent(text))),
                Kind::OldHeading => Some(Block::Heading(text[0].trim().to_owned())),
                Kind::Heading => Some(Block::Heading(text[0][1..].trim().to_owned())),
                Kind::Paragraph => document.paragraph(text).map(Block::Paragraph),
            };
            document.blocks.extend(block);
            previous_end = span.end;
        }
        document
    }

    /// The lines, or nothing where they only define links.
    fn paragraph(&mut self, lines: &[&str]) -> Option<Vec<String>> {
        let links: Option<Vec<LinkDefinition>> = lines.iter().map(|line| link(line)).collect();
        match links {
            Some(links) if !links.is_empty() => {
                self.links.extend(links);
                None
            }
            _ => Some(lines.iter().map(|line| (*line).to_owned()).collect()),
        }
    }

    fn list(&mut self, lines: &[&str], blank_before: bool) -> Block {
        let numbered = list_marker(lines[0]).is_some_and(|(number, _)| !number.is_empty());
        let mut items: Vec<Item> = Vec::new();
        let (mut text, mut blank_between): (Vec<&str>, bool) = (Vec::new(), false);
        for line in lines {
            let mut line = *line;
            if let Some((number, rest)) = list_marker(line).filter(|(number, _)| number.is_empty() != numbered) {
                self.flush(&mut text, &mut items);
                items.push(Item { number: number.to_owned(), paragraphs: Vec::new() });
                line = rest;
            }
            let line = line.trim();
            if line.is_empty() {
                blank_between = true;
                self.flush(&mut text, &mut items);
            } else {
                text.push(line);
            }
        }
        self.flush(&mut text, &mut items);
        let blank_between = blank_between || items.iter().any(|item| item.paragraphs.len() != 1);
        Block::List { items, blank_before: blank_before || blank_between, blank_between }
    }

    fn flush(&mut self, text: &mut Vec<&str>, items: &mut [Item]) {
        let text = std::mem::take(text);
        if let Some(item) = items.last_mut() {
            let paragraph = if text.is_empty() { None } else { self.paragraph(&text) };
            item.paragraphs.extend(paragraph);
        }
    }

    fn print(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (at, block) in self.blocks.iter().enumerate() {
            let blank = !matches!(block, Block::List { blank_before: false, .. });
            if at > 0 && blank {
                out.push(String::new());
            }
            print_block(block, &mut out);
        }
        for used in [true, false] {
            let links: Vec<&LinkDefinition> = self.links.iter().filter(|link| self.uses(link) == used).collect();
            if !links.is_empty() {
                out.push(String::new());
                out.extend(links.iter().map(|link| format!("[{}]: {}", link.text, link.url)));
            }
        }
        out
    }

    /// Whether some text refers to the link, and this definition is the first of its name.
    fn uses(&self, link: &LinkDefinition) -> bool {
        let first = self.links.iter().find(|other| other.text == link.text).is_some_and(|first| std::ptr::eq(first, link));
        let refers = |lines: &[String]| bracketed(&lines.join("\n")).contains(&link.text);
        let used = |block: &Block| match block {
            Block::Paragraph(lines) => refers(lines),
            Block::List { items, .. } => items.iter().flat_map(|item| &item.paragraphs).any(|lines| refers(lines)),
            Block::Heading(_) | Block::Code(_) => false,
        };
        first && self.blocks.iter().any(used)
    }
}

fn print_block(block: &Block, out: &mut Vec<String>) {
    match block {
        Block::Paragraph(lines) => out.extend(curly(&lines.join("\n")).split('\n').map(str::to_owned)),
        Block::Heading(text) => out.push(format!("# {text}")),
        Block::Code(lines) => {
            out.extend(lines.iter().map(|line| if line.is_empty() { String::new() } else { format!("\t{line}") }));
        }
        Block::List { items, blank_between, .. } => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 && *blank_between {
                    out.push(String::new());
                }
                print_item(item, out);
            }
        }
    }
}

fn print_item(item: &Item, out: &mut Vec<String>) {
    const INDENT: &str = "    ";
    let bullet = if item.number.is_empty() { "  - ".to_owned() } else { format!(" {}. ", item.number) };
    if item.paragraphs.is_empty() {
        out.push(bullet.clone());
    }
    for (at, paragraph) in item.paragraphs.iter().enumerate() {
        let text = curly(&paragraph.join("\n"));
        for (line_at, line) in text.split('\n').enumerate() {
            match (at, line_at) {
                (0, 0) => out.push(format!("{bullet}{line}")),
                (_, 0) => {
                    out.push(String::new());
                    out.push(format!("{INDENT}{line}"));
                }
                _ => out.push(format!("{INDENT}{line}")),
            }
        }
    }
}

/// Two backquotes or two apostrophes are typographic quotes. Three and more backquotes are left alone, and so are URLs.
fn curly(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let ticks = rest.len() - rest.trim_start_matches('`').len();
        let taken = match c {
            '`' if ticks >= 3 => ticks,
            '`' if ticks == 2 => {
                out.push('“');
                rest = &rest[2..];
                continue;
            }
            '\'' if rest.starts_with("''") => {
                out.push('”');
                rest = &rest[2..];
                continue;
            }
            _ => match url_length(rest).or_else(|| identifier_length(rest)) {
                Some(length) => length,
                None => c.len_utf8(),
            },
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

/// What stands in brackets, line ends read as spaces.
fn bracketed(text: &str) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), None);
    for c in text.chars() {
        match (c, &mut open) {
            ('[', _) => open = Some(String::new()),
            (']', Some(inner)) => {
                found.push(std::mem::take(inner));
                open = None;
            }
            ('\n' | '\t', Some(inner)) => inner.push(' '),
            (c, Some(inner)) => inner.push(c),
            _ => {}
        }
    }
    found
}

fn spans(lines: &[&str]) -> Vec<Span> {
    let mut spans = Vec::new();
    let (mut at, mut force_indent) = (0, 0);
    loop {
        while at < lines.len() && lines[at].is_empty() {
            at += 1;
        }
        if at >= lines.len() {
            return spans;
        }
        let start = at;
        if at < force_indent || is_indented(lines[at]) {
            let (end, next) = indented_span(lines, at, force_indent);
            let kind = if list_marker(lines[start]).is_some() { Kind::List } else { Kind::Code };
            spans.push(Span { start, end, kind });
            at = next;
            continue;
        }
        at += 1;
        while at < lines.len() && !lines[at].is_empty() && !is_indented(lines[at]) {
            at += 1;
        }
        let mut end = at;
        // Lists and code that only go on with an indent belong to what follows.
        if at < lines.len() && !lines[at].is_empty() && list_marker(lines[at]).is_none() {
            if list_marker(lines[at - 1]).is_some() {
                force_indent = end;
                end -= 1;
                while end > start && list_marker(lines[end - 1]).is_some() {
                    end -= 1;
                }
            } else if lines[at - 1].ends_with('{') || lines[at - 1].ends_with('\\') {
                force_indent = end;
                end -= 1;
            }
            if start == end && force_indent > start {
                at = start;
                continue;
            }
        }
        let single = end - start == 1;
        let kind = match lines[start] {
            line if single && is_heading(line) => Kind::Heading,
            line if single && is_old_heading(line, lines, start) => Kind::OldHeading,
            _ => Kind::Paragraph,
        };
        spans.push(Span { start, end, kind });
        at = end;
    }
}

/// Where an indented span ends, and where to go on.
fn indented_span(lines: &[&str], start: usize, force_indent: usize) -> (usize, usize) {
    let mut unindented_list = list_marker(lines[start]).is_some() && start < force_indent;
    let mut at = start + 1;
    while at < lines.len()
        && (lines[at].is_empty() || at < force_indent || is_indented(lines[at]) || (unindented_list && list_marker(lines[at]).is_some()))
    {
        unindented_list &= !lines[at].is_empty();
        at += 1;
    }
    let mut end = at;
    while end > start && lines[end - 1].is_empty() {
        end -= 1;
    }
    if end < lines.len() && lines[end].starts_with('}') {
        end += 1;
    }
    (end, end)
}

fn is_indented(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

/// Without the white space that all lines begin with, and without empty lines around.
fn unindent(lines: &[&str]) -> Vec<String> {
    let Some(first) = lines.iter().position(|line| !line.is_empty()) else { return Vec::new() };
    let last = lines.iter().rposition(|line| !line.is_empty()).expect("there is a first one");
    let lines = &lines[first..=last];
    let leading = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let mut prefix = &lines[0][..leading(lines[0])];
    for line in lines[1..].iter().filter(|line| !line.is_empty()) {
        let common = prefix.bytes().zip(line[..leading(line)].bytes()).take_while(|(a, b)| a == b).count();
        prefix = &prefix[..common];
    }
    let cut = |line: &&str| {
        let line = line.strip_prefix(prefix).unwrap_or(line);
        if line.trim().is_empty() { String::new() } else { line.to_owned() }
    };
    let mut out: Vec<String> = lines.iter().map(cut).collect();
    while out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    let leading_blank = out.iter().take_while(|line| line.is_empty()).count();
    out.drain(..leading_blank);
    out
}

fn is_heading(line: &str) -> bool {
    line.starts_with("# ") && line.trim() != "#" || line.starts_with("#\t") && line.trim() != "#"
}

/// A single line between empty ones that reads like a title.
fn is_old_heading(line: &str, lines: &[&str], at: usize) -> bool {
    let alone = at > 0 && lines[at - 1].is_empty() && at + 2 < lines.len() && lines[at + 1].is_empty() && !is_indented(lines[at + 2]);
    let line = line.trim();
    if !alone || !line.starts_with(char::is_uppercase) || !line.ends_with(char::is_alphanumeric) {
        return false;
    }
    if line.contains([
        ';', ':', '!', '?', '+', '*', '/', '=', '[', ']', '{', '}', '_', '^', '°', '&', '§', '~', '%', '#', '@', '<', '"', '>', '\\',
    ]) {
        return false;
    }
    let possessive = line.split('\'').skip(1).all(|after| after == "s" || after.starts_with("s "));
    let dots = line.split('.').skip(1).all(|after| !after.is_empty() && !after.starts_with(' '));
    possessive && dots
}

/// The number (empty for a bullet) and the rest of a list item's first line.
fn list_marker(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let first = line.chars().next()?;
    let (number, rest) = if matches!(first, '•' | '*' | '+' | '-') {
        ("", &line[first.len_utf8()..])
    } else if first.is_ascii_digit() {
        let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let rest = line[digits..].strip_prefix(['.', ')'])?;
        (&line[..digits], rest)
    } else {
        return None;
    };
    (is_indented(rest) && !rest.trim().is_empty()).then_some((number, rest))
}

/// `[text]: https://...`
fn link(line: &str) -> Option<LinkDefinition> {
    let (text, url) = line.strip_prefix('[')?.split_once("]:")?;
    let url = url.strip_prefix([' ', '\t'])?.trim();
    let (scheme, _) = url.split_once("://")?;
    is_scheme(scheme).then(|| LinkDefinition { text: text.to_owned(), url: url.to_owned() })
}

fn is_scheme(text: &str) -> bool {
    ["file", "ftp", "gopher", "http", "https", "mailto", "nntp"].contains(&text)
}

/// The length of the URL that the text begins with.
fn url_length(text: &str) -> Option<usize> {
    let scheme = text.get(..7.min(text.len())).and_then(|head| head.find(':'))?;
    let rest = text[scheme..].strip_prefix("://").filter(|_| is_scheme(&text[..scheme]))?.as_bytes();
    let is_punctuation = |b: u8| b".,:;?!".contains(&b);
    let is_host = |b: u8| b.is_ascii_alphanumeric() || b"_@-.[]:".contains(&b);
    let first = *rest.first()?;
    if !is_host(first) || is_punctuation(first) {
        return None;
    }
    let host = rest.iter().take_while(|b| is_host(**b)).count();
    let mut end = rest[..host].iter().rposition(|b| !is_punctuation(*b)).map_or(1, |at| at + 1);
    let mut open = Vec::new();
    for (at, b) in rest.iter().enumerate().skip(end) {
        if is_punctuation(*b) {
            continue;
        }
        if !(b.is_ascii_alphanumeric() || b"$'()*+&#=@~_/-[]{}%".contains(b)) {
            break;
        }
        match b {
            b'(' => open.push(b')'),
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b')' | b'}' | b']' if open.pop() != Some(*b) => break,
            _ => {}
        }
        if open.is_empty() {
            end = at + 1;
        }
    }
    Some(scheme + 3 + end)
}

/// The length of the identifier that the text begins with.
fn identifier_length(text: &str) -> Option<usize> {
    let mut length = 0;
    for c in text.chars() {
        let fits = c == '_' || c.is_alphabetic() || (length > 0 && c.is_ascii_digit());
        if !fits {
            break;
        }
        length += c.len_utf8();
    }
    (length > 0).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(doc(text).join("\n"), expected, "{text:?}");
    }

    #[test]
    fn comments_are_laid_out_as_gofmt_does() {
        check(" A line.\n Another.\n", "// A line.\n// Another.");
        check("no space\n", "// no space");
        check(" a\n\n\n b\n", "// a\n//\n// b");
        check(" Items:\n - one\n   more\n - two\n", "// Items:\n//   - one\n//     more\n//   - two");
        check(" Items:\n\n   1. one\n\n   2) two\n", "// Items:\n//\n//  1. one\n//\n//  2. two");
        check(" Code:\n     x = 1\n       y\n after\n", "// Code:\n//\n//\tx = 1\n//\t  y\n//\n// after");
        check(" Say ``this''.\n", "// Say “this”.");
        check(" ```\n code\n ```\n", "// ```\n// code\n// ```");
        check(" See http://a.b/c''d.\n", "// See http://a.b/c''d.");
        check(" Text\n\n Old Heading\n\n More\n", "// Text\n//\n// # Old Heading\n//\n// More");
        check(" [a]: http://b.c\n Text\n", "// [a]: http://b.c\n// Text");
        check(" See [a].\n\n [a]: http://b.c\n", "// See [a].\n//\n// [a]: http://b.c");
        check("nolint:all\n Text\n", "// Text\n//\n//nolint:all");
        check("\n", "");
        check(" trailing space \n", "// trailing space");
    }
}
