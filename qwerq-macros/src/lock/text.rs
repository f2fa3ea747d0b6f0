//! The text of `qwerq.lock`: the part of TOML that `qwer-q gen` writes, and nothing more.
//!
//! A general TOML reader would cost everybody who compiles a macro more than this file. What is read here and written there is held
//! together by tests on locks that `qwer-q gen` made. What the names in a lock stand for is in `lock`.

use std::collections::BTreeMap;

/// The format that is read.
const FORMAT: &str = "1";

/// A lock as it stands in the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    /// The name of the descriptor file, which lies beside the lock.
    pub(crate) descriptors: String,
    /// Its SHA-256.
    pub(crate) sha256: String,
    /// The contracts in their order.
    pub(crate) contracts: Vec<Locked>,
}

/// One `[[contract]]`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Locked {
    pub(crate) queue: String,
    pub(crate) version: u32,
    pub(crate) message_type: String,
    pub(crate) reply_type: Option<String>,
    pub(crate) fingerprint: [u8; 32],
    pub(crate) files: Vec<String>,
}

/// A value and the line that it begins in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Number(String),
    Text(String),
    List(Vec<String>),
}

/// The keys of one table.
#[derive(Debug, Default)]
struct Table {
    /// Its first line, for errors about what it lacks.
    line: usize,
    keys: BTreeMap<String, (usize, Value)>,
}

/// Reads a lock.
///
/// # Errors
/// What is wrong and in which line, to be followed by what to do about it.
pub(crate) fn read(text: &str) -> Result<Text, String> {
    // Before anything else: a newer format may be nothing that the lines below understand.
    match text.lines().find_map(|line| line.trim().strip_prefix("format = ")) {
        Some(FORMAT) => {}
        Some(other) => {
            return Err(format!("has format {other}, and this version of qwerq reads {FORMAT}: use the same version everywhere"));
        }
        None => return Err("says no format, so it is no lock of `qwer-q gen`".to_owned()),
    }
    let (mut top, mut descriptors, mut contracts) = tables(text)?;
    top.number("format")?;
    top.text("runtime")?;
    top.finish("the top")?;
    let lock = Text {
        descriptors: descriptors.text("file")?,
        sha256: descriptors.text("sha256")?,
        contracts: contracts.iter_mut().map(Table::contract).collect::<Result<_, _>>()?,
    };
    descriptors.finish("[descriptors]")?;
    Ok(lock)
}

/// The top, `[descriptors]`, and every `[[contract]]`.
fn tables(text: &str) -> Result<(Table, Table, Vec<Table>), String> {
    let (mut top, mut descriptors, mut contracts) = (Table::default(), Table::default(), Vec::new());
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    // 0: the top; 1: the descriptors; 2: the last contract.
    let mut current = 0;
    while let Some((at, line)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line {
            "[descriptors]" => {
                descriptors.line = at;
                current = 1;
                continue;
            }
            "[[contract]]" => {
                contracts.push(Table { line: at, ..Table::default() });
                current = 2;
                continue;
            }
            _ => {}
        }
        let (key, rest) = line.split_once('=').ok_or_else(|| format!("line {at} is not `key = value`: {line}"))?;
        let value = match rest.trim() {
            "[" => {
                let mut items = Vec::new();
                loop {
                    match lines.next() {
                        Some((_, "]")) => break Value::List(items),
                        Some((at, line)) => {
                            let item = line.strip_suffix(',').unwrap_or(line);
                            items.push(string(item).ok_or_else(|| format!("line {at} is no text in quotes: {line}"))?);
                        }
                        None => return Err(format!("the list that begins in line {at} has no end")),
                    }
                }
            }
            "[]" => Value::List(Vec::new()),
            number if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => Value::Number(number.to_owned()),
            quoted => Value::Text(string(quoted).ok_or_else(|| format!("line {at} is neither a number nor text in quotes: {line}"))?),
        };
        let table = match current {
            0 => &mut top,
            1 => &mut descriptors,
            _ => contracts.last_mut().expect("its header was read"),
        };
        if table.keys.insert(key.trim().to_owned(), (at, value)).is_some() {
            return Err(format!("line {at} says `{}` twice", key.trim()));
        }
    }
    Ok((top, descriptors, contracts))
}

impl Table {
    fn contract(&mut self) -> Result<Locked, String> {
        let queue = self.text("queue")?;
        let version = self.number("version")?;
        let digits = self.text("fingerprint")?;
        let locked = Locked {
            version: version.parse().map_err(|_| format!("queue {queue}: {version} is no version"))?,
            message_type: self.text("message_type")?,
            reply_type: self.keys.contains_key("reply_type").then(|| self.text("reply_type")).transpose()?,
            fingerprint: unhex(&digits).ok_or_else(|| format!("queue {queue}: its fingerprint is not 64 hexadecimal digits"))?,
            files: self.list("files")?,
            queue,
        };
        self.finish("[[contract]]")?;
        Ok(locked)
    }

    fn text(&mut self, key: &str) -> Result<String, String> {
        match self.take(key)? {
            (_, Value::Text(text)) => Ok(text),
            (at, _) => Err(format!("line {at}: `{key}` is not text in quotes")),
        }
    }

    fn number(&mut self, key: &str) -> Result<String, String> {
        match self.take(key)? {
            (_, Value::Number(number)) => Ok(number),
            (at, _) => Err(format!("line {at}: `{key}` is no number")),
        }
    }

    fn list(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.take(key)? {
            (_, Value::List(list)) => Ok(list),
            (at, _) => Err(format!("line {at}: `{key}` is no list")),
        }
    }

    fn take(&mut self, key: &str) -> Result<(usize, Value), String> {
        self.keys.remove(key).ok_or_else(|| format!("line {}: `{key}` is missing below it", self.line.max(1)))
    }

    /// A key that nobody asked for means something that this version does not know.
    fn finish(&self, table: &str) -> Result<(), String> {
        match self.keys.iter().next() {
            None => Ok(()),
            Some((key, (at, _))) => Err(format!("line {at}: `{key}` is not known in {table}")),
        }
    }
}

/// A TOML string in one line, `"with escapes"` or `'without'`.
fn string(quoted: &str) -> Option<String> {
    if let Some(plain) = quoted.strip_prefix('\'') {
        let plain = plain.strip_suffix('\'')?;
        return (!plain.contains('\'')).then(|| plain.to_owned());
    }
    let mut chars = quoted.strip_prefix('"')?.chars();
    let mut text = String::new();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(text),
            '\\' => text.push(match chars.next()? {
                'b' => '\u{8}',
                't' => '\t',
                'n' => '\n',
                'f' => '\u{c}',
                'r' => '\r',
                'u' => code_point(&mut chars, 4)?,
                'U' => code_point(&mut chars, 8)?,
                same @ ('"' | '\\') => same,
                _ => return None,
            }),
            other => text.push(other),
        }
    }
}

fn code_point(chars: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let mut value = 0;
    for _ in 0..digits {
        value = value * 16 + chars.next()?.to_digit(16)?;
    }
    char::from_u32(value)
}

fn unhex(digits: &str) -> Option<[u8; 32]> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(pair).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = include_str!("../../../examples/orders/qwerq.lock");

    #[test]
    fn a_lock_of_gen_is_read() {
        let lock = read(LOCK).unwrap();
        assert_eq!((lock.descriptors.as_str(), lock.sha256.len()), ("qwerq.descriptors.binpb", 64));
        let [orders] = &*lock.contracts else { panic!("{lock:?}") };
        assert_eq!((orders.queue.as_str(), orders.version, orders.message_type.as_str()), ("orders", 1, "shop.v1.Order"));
        assert_eq!((orders.reply_type.as_deref(), &orders.fingerprint[..2]), (None, [0x8d, 0x4f].as_slice()));
        assert_eq!(orders.files, ["shop/v1/order.proto"]);
        // As git leaves it on Windows.
        assert_eq!(read(&LOCK.replace('\n', "\r\n")).unwrap(), lock);
        assert_eq!(read(include_str!("../../../examples/pricing/qwerq.lock")).unwrap().contracts.len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (from, to, expected) in [
            ("format = 1", "format = 9", "has format 9, and this version of qwerq reads 1"),
            ("format = 1", "", "says no format"),
            ("version = 1", "<<<<<<< HEAD", "line 12 is not `key = value`: <<<<<<< HEAD"),
            ("version = 1", "version = \"1\"", "line 12: `version` is no number"),
            ("version = 1", "version = 99999999999", "queue orders: 99999999999 is no version"),
            ("version = 1", "version = 1\nowner = \"me\"", "line 13: `owner` is not known in [[contract]]"),
            ("version = 1", "version = 1\nversion = 1", "line 13 says `version` twice"),
            ("message_type = \"shop.v1.Order\"\n", "", "line 10: `message_type` is missing below it"),
            ("\"shop.v1.Order\"", "\"shop.v1.Order", "line 13 is neither a number nor text in quotes"),
            ("fingerprint = \"8d", "fingerprint = \"zz", "queue orders: its fingerprint is not 64 hexadecimal digits"),
            ("order.proto\",\n]\n", "order.proto\",\n", "the list that begins in line 15 has no end"),
        ] {
            assert!(LOCK.contains(from), "{from}");
            let error = read(&LOCK.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{from} -> {to}: {error}");
        }
    }

    #[test]
    fn strings_are_toml_strings() {
        for (quoted, expected) in [
            (r#""a""#, Some("a")),
            (r#""\"\\\t\u00e9\U0001F980""#, Some("\"\\\té🦀")),
            (r"'a\b'", Some(r"a\b")),
            (r#""a" # b"#, None),
            (r#""a"#, None),
            (r#""\q""#, None),
            ("a", None),
        ] {
            assert_eq!(string(quoted).as_deref(), expected, "{quoted}");
        }
    }
}
