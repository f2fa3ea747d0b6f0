//! Schema comments as rustdoc takes them: what only looks like code must not become a test in the user's crate.
//!
//! Comments are changed in the descriptor, before prost-build turns them into doc lines.

use prost_types::FileDescriptorProto;

/// Rewrites every comment of the file.
pub(super) fn tidy(file: &mut FileDescriptorProto) {
    for location in file.source_code_info.iter_mut().flat_map(|info| &mut info.location) {
        for comment in [&mut location.leading_comments, &mut location.trailing_comments].into_iter().flatten() {
            *comment = tidy_comment(comment);
        }
        location.leading_detached_comments.clear();
    }
}

/// Fences get a language that rustdoc does not run; indented code becomes fenced; no line ends in blanks.
fn tidy_comment(comment: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut fence: Option<&str> = None;
    // Where the block's text begins, and the margin of the list item around it.
    let mut indented: Option<(usize, usize)> = None;
    let mut after_blank = true;
    // Where the text of the list item that the line may belong to begins.
    let mut list: Option<usize> = None;
    for line in comment.lines() {
        let line = line.trim_end().replace('\t', "    ");
        let text = line.trim_start();
        let indent = (line.len() - text.len()).saturating_sub(1);
        if let Some(mark) = fence {
            if text.starts_with(mark) && text.trim_start_matches(&mark[..1]).is_empty() {
                fence = None;
            }
            out.push(line);
            continue;
        }
        if let Some((at, margin)) = indented {
            if text.is_empty() || indent >= at {
                out.push(if text.is_empty() { String::new() } else { format!("{:margin$}{}", "", &line[at..]) });
                continue;
            }
            close_indented(&mut out, margin);
            indented = None;
        }
        if text.is_empty() {
            after_blank = true;
            out.push(line);
            continue;
        }
        let mark = ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark));
        if let Some(mark) = mark {
            fence = Some(mark);
            let run = text.len() - text.trim_start_matches(&mark[..1]).len();
            let language = text[run..].split([',', ' ']).next().unwrap_or_default();
            let runs = matches!(language, "" | "rust" | "should_panic" | "no_run" | "ignore" | "compile_fail");
            let head = &line[..line.len() - text.len() + run];
            out.push(if runs { format!("{head}text") } else { line });
            after_blank = false;
            continue;
        }
        let margin = list.unwrap_or(0);
        if after_blank && indent >= margin + 4 {
            indented = Some((indent, margin));
            out.push(format!("{:margin$} ```text", ""));
            out.push(format!("{:margin$}{}", "", &line[indent..]));
            continue;
        }
        match list_text(text) {
            Some(width) => list = Some(indent + width),
            None if after_blank && indent < margin => list = None,
            None => {}
        }
        after_blank = false;
        out.push(line);
    }
    if let Some((_, margin)) = indented {
        close_indented(&mut out, margin);
    }
    if let Some(mark) = fence {
        out.push(format!(" {mark}"));
    }
    for line in &mut out {
        // prost-build moves lines that are indented one further, which could make code of them.
        if line.starts_with("   ") {
            line.remove(0);
        }
    }
    out.join("\n")
}

/// Ends a block of code before the blank lines that follow it.
fn close_indented(out: &mut Vec<String>, margin: usize) {
    let blanks = out.iter().rev().take_while(|line| line.is_empty()).count();
    out.insert(out.len() - blanks, format!("{:margin$} ```", ""));
}

/// How far behind its marker a list item's text begins.
fn list_text(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let marker = match text.as_bytes().get(digits) {
        Some(b'.' | b')') if digits > 0 => digits + 1,
        Some(b'-' | b'*' | b'+') if digits == 0 => 1,
        _ => return None,
    };
    let blanks = text[marker..].bytes().take_while(|b| *b == b' ').count();
    (blanks > 0).then_some(marker + blanks)
}

#[cfg(test)]
mod tests {
    use super::tidy_comment;

    #[test]
    fn nothing_becomes_a_doc_test() {
        let cases = [
            (" Plain.  \n Second.\n", " Plain.\n Second."),
            (" Like:\n\n     {\n       \"a\": 1\n     }\n\n After.", " Like:\n\n ```text\n {\n  \"a\": 1\n }\n ```\n\n After."),
            (" ```\n x\n ```\n", " ```text\n x\n ```"),
            (" ```rust\n x\n", " ```text\n x\n ```"),
            (" ```json\n {}\n ```", " ```json\n {}\n ```"),
            (" - item\n\n   more of the item\n", " - item\n\n  more of the item"),
            (" 1. item\n\n        code\n", " 1. item\n\n   ```text\n   code\n   ```"),
        ];
        for (comment, expected) in cases {
            assert_eq!(tidy_comment(comment), expected, "{comment:?}");
        }
    }
}
