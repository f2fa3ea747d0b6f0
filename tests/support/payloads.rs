//! Payloads that know where they are broken: for a message type and a seed one valid payload and three invalid ones, each
//! with the violation's kind, path and offset.
//!
//! What is expected is known by construction: a payload is a tree of pieces, one piece is put in that breaks a rule, and
//! the encoder notes where it comes to stand. No validator is asked.

use prost_reflect::{Cardinality, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor};

/// The payloads of one message type and seed.
#[derive(Debug, Clone)]
pub(crate) struct Payloads {
    /// Keeps the contract, in strict mode too.
    pub(crate) valid: Vec<u8>,
    /// A known field with a wrong wire type; a length past its container, nested where the type has nested fields; bad
    /// UTF-8 in a string. A type without the fields that this takes gets broken tags instead.
    pub(crate) invalid: [Invalid; 3],
}

/// A payload that breaks its contract in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invalid {
    pub(crate) bytes: Vec<u8>,
    /// The stable name of the violation's kind.
    pub(crate) kind: &'static str,
    pub(crate) path: String,
    pub(crate) offset: usize,
    /// Whether the broken piece stands inside a nested message, group or map entry.
    pub(crate) nested: bool,
}

/// Messages nest no deeper, but for required fields.
const DEPTH_MAX: usize = 5;
/// Pieces of one payload, but for required fields.
const PIECES_MAX: usize = 150;

/// Makes the payloads of a message type; the same seed makes the same ones.
pub(crate) fn payloads(message: &MessageDescriptor, seed: u64) -> Payloads {
    let mut maker = Maker { random: Random(seed), pieces_left: PIECES_MAX };
    let root = maker.container(message, DEPTH_MAX);
    let valid = root.encode().0;
    let invalid = [maker.wrong_wire_type(&root), maker.length_past_the_end(&root), maker.bad_text(&root)];
    Payloads { valid, invalid }
}

/// A message, group or map entry, with what may be put into it.
#[derive(Clone)]
struct Container {
    known: Vec<Known>,
    pieces: Vec<Piece>,
    /// The key as a path shows it, when this is a map entry.
    key: Option<String>,
    group: bool,
}

/// One occurrence of a field.
#[derive(Clone)]
struct Piece {
    number: u32,
    /// The field's name in a path; `None` when the piece is a broken tag.
    name: Option<String>,
    /// Whether its path has an index.
    indexed: bool,
    body: Body,
    broken: bool,
}

#[derive(Clone)]
enum Body {
    /// The bytes of tag and value.
    Bytes(Vec<u8>),
    Container(Container),
}

/// A field or extension.
#[derive(Clone)]
struct Known {
    number: u32,
    name: String,
    kind: Kind,
    repeated: bool,
    required: bool,
    map: bool,
    group: bool,
    oneof: Option<String>,
}

impl Known {
    fn of(message: &MessageDescriptor) -> Vec<Known> {
        let fields = message.fields().map(|field| Known::field(&field));
        let extensions = message.extensions().map(|extension| Known::extension(&extension));
        fields.chain(extensions).collect()
    }

    fn field(field: &FieldDescriptor) -> Known {
        let oneof = field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
        Known {
            number: field.number(),
            name: field.name().to_owned(),
            kind: field.kind(),
            repeated: field.cardinality() == Cardinality::Repeated,
            required: field.is_required(),
            map: field.is_map(),
            group: field.is_group(),
            oneof: oneof.map(|oneof| oneof.name().to_owned()),
        }
    }

    fn extension(extension: &ExtensionDescriptor) -> Known {
        Known {
            number: extension.number(),
            name: format!("[{}]", extension.full_name()),
            kind: extension.kind(),
            repeated: extension.cardinality() == Cardinality::Repeated,
            required: false,
            map: false,
            group: extension.is_group(),
            oneof: None,
        }
    }

    fn wire(&self) -> u32 {
        match self.kind {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => 1,
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => 5,
            Kind::String | Kind::Bytes => 2,
            Kind::Message(_) if self.group => 3,
            Kind::Message(_) => 2,
            _ => 0,
        }
    }

    fn packable(&self) -> bool {
        self.repeated && !matches!(self.kind, Kind::String | Kind::Bytes | Kind::Message(_))
    }

    fn delimited(&self) -> bool {
        self.wire() == 2 || self.packable()
    }

    fn piece(&self, body: Body) -> Piece {
        Piece {
            number: self.number,
            name: Some(self.name.clone()),
            indexed: self.repeated && !self.map && matches!(self.kind, Kind::String | Kind::Message(_)),
            body,
            broken: false,
        }
    }

    fn broken(&self, wire: u32, value: &[u8]) -> Piece {
        Piece { broken: true, ..self.piece(Body::Bytes(field_bytes(self.number, wire, value))) }
    }
}

/// Where the broken piece stands.
struct Place {
    path: String,
    offset: usize,
}

impl Container {
    /// The payload, and the place of its broken piece if it has one.
    fn encode(&self) -> (Vec<u8>, Option<Place>) {
        let mut out = Vec::new();
        let place = self.write(&mut out, "");
        (out, place)
    }

    /// Appends the pieces. `path` leads to this container; to the map itself when it is an entry.
    fn write(&self, out: &mut Vec<u8>, path: &str) -> Option<Place> {
        let mut place = None;
        for (index, piece) in self.pieces.iter().enumerate() {
            let offset = out.len();
            let path = self.path_of(index, piece, path);
            if piece.broken {
                place = Some(Place { path: path.clone(), offset });
            }
            match &piece.body {
                Body::Bytes(bytes) => out.extend_from_slice(bytes),
                Body::Container(inner) if inner.group => {
                    put_varint(out, u64::from(piece.number << 3 | 3));
                    place = inner.write(out, &path).or(place);
                    put_varint(out, u64::from(piece.number << 3 | 4));
                }
                Body::Container(inner) => {
                    // The length goes before the content, and its own length is not known before the content's.
                    let len = inner.encode().0.len();
                    put_varint(out, u64::from(piece.number << 3 | 2));
                    put_varint(out, len as u64);
                    place = inner.write(out, &path).or(place);
                }
            }
        }
        place
    }

    fn path_of(&self, index: usize, piece: &Piece, path: &str) -> String {
        let Some(name) = &piece.name else {
            return path.to_owned();
        };
        match &self.key {
            Some(_) if piece.number == 1 => return path.to_owned(),
            Some(key) => return format!("{path}[{key}]"),
            None => {}
        }
        let dot = if path.is_empty() { "" } else { "." };
        if !piece.indexed {
            return format!("{path}{dot}{name}");
        }
        let before = self.pieces[..index].iter().filter(|other| other.number == piece.number).count();
        format!("{path}{dot}{name}[{before}]")
    }

    /// All containers of the tree, this one first, each by the indices that lead to it.
    fn addresses(&self) -> Vec<Vec<usize>> {
        let mut addresses = vec![Vec::new()];
        for (index, piece) in self.pieces.iter().enumerate() {
            if let Body::Container(inner) = &piece.body {
                addresses.extend(inner.addresses().into_iter().map(|mut address| {
                    address.insert(0, index);
                    address
                }));
            }
        }
        addresses
    }

    fn at(&self, address: &[usize]) -> &Container {
        match address.split_first() {
            None => self,
            Some((index, rest)) => match &self.pieces[*index].body {
                Body::Container(inner) => inner.at(rest),
                Body::Bytes(_) => unreachable!("addresses lead through containers"),
            },
        }
    }

    fn at_mut(&mut self, address: &[usize]) -> &mut Container {
        match address.split_first() {
            None => self,
            Some((index, rest)) => match &mut self.pieces[*index].body {
                Body::Container(inner) => inner.at_mut(rest),
                Body::Bytes(_) => unreachable!("addresses lead through containers"),
            },
        }
    }

    /// This tree with a broken piece in it.
    fn with(&self, address: &[usize], index: usize, piece: Piece, kind: &'static str) -> Invalid {
        let mut tree = self.clone();
        tree.at_mut(address).pieces.insert(index, piece);
        let (bytes, place) = tree.encode();
        let Place { path, offset } = place.expect("the broken piece was put in");
        Invalid { bytes, kind, path, offset, nested: !address.is_empty() }
    }
}

struct Maker {
    random: Random,
    pieces_left: usize,
}

impl Maker {
    fn container(&mut self, message: &MessageDescriptor, depth: usize) -> Container {
        let known = Known::of(message);
        let mut pieces = Vec::new();
        let mut oneofs = Vec::new();
        for field in &known {
            if let Some(oneof) = &field.oneof {
                if oneofs.contains(oneof) || self.random.one_in(2) {
                    continue;
                }
                oneofs.push(oneof.clone());
            }
            let occurrences = match (field.required, field.repeated) {
                (true, _) => 1,
                (false, _) if self.pieces_left == 0 || depth == 0 && matches!(field.kind, Kind::Message(_)) => 0,
                (false, false) => self.random.below(4).min(1),
                (false, true) => self.random.below(4),
            };
            for _ in 0..occurrences {
                self.pieces_left = self.pieces_left.saturating_sub(1);
                let body = self.body(field, depth.saturating_sub(1));
                pieces.push(field.piece(body));
            }
        }
        self.random.shuffle(&mut pieces);
        Container { known, pieces, key: None, group: false }
    }

    fn body(&mut self, field: &Known, depth: usize) -> Body {
        match &field.kind {
            Kind::Message(entry) if field.map => Body::Container(self.entry(entry, depth)),
            Kind::Message(message) => {
                let group = field.group;
                Body::Container(Container { group, ..self.container(message, depth) })
            }
            _ if field.packable() && self.random.one_in(2) => {
                let count = self.random.below(5);
                let run: Vec<u8> = (0..count).flat_map(|_| self.value(&field.kind)).collect();
                Body::Bytes(field_bytes(field.number, 2, &delimited(&run)))
            }
            kind => {
                let value = self.value(kind);
                Body::Bytes(field_bytes(field.number, field.wire(), &value))
            }
        }
    }

    fn entry(&mut self, entry: &MessageDescriptor, depth: usize) -> Container {
        let known = Known::of(entry);
        let key = known.iter().find(|field| field.number == 1).expect("map entries have a key");
        let value = known.iter().find(|field| field.number == 2).expect("map entries have a value");
        let (key_bytes, key_text) = self.key(&key.kind);
        let mut pieces = vec![key.piece(Body::Bytes(field_bytes(1, key.wire(), &key_bytes)))];
        pieces.push(value.piece(self.body(value, depth)));
        self.random.shuffle(&mut pieces);
        Container { pieces, key: Some(key_text), group: false, known }
    }

    /// A map key's bytes and how a path shows it.
    fn key(&mut self, kind: &Kind) -> (Vec<u8>, String) {
        let small = self.random.below(1000);
        let number = i32::try_from(small).expect("below 1000") - 500;
        let unsigned = small as u64;
        let zigzag = (i64::from(number) << 1 ^ i64::from(number) >> 63).cast_unsigned();
        match kind {
            Kind::String => {
                let text = format!("k{small}");
                (delimited(text.as_bytes()), text)
            }
            Kind::Bool => (varint(unsigned % 2), (unsigned % 2 == 1).to_string()),
            Kind::Int32 | Kind::Int64 => (varint(i64::from(number).cast_unsigned()), number.to_string()),
            Kind::Sint32 | Kind::Sint64 => (varint(zigzag), number.to_string()),
            Kind::Sfixed32 => (number.to_le_bytes().into(), number.to_string()),
            Kind::Sfixed64 => (i64::from(number).to_le_bytes().into(), number.to_string()),
            Kind::Fixed32 => (number.unsigned_abs().to_le_bytes().into(), number.unsigned_abs().to_string()),
            Kind::Fixed64 => (unsigned.to_le_bytes().into(), small.to_string()),
            _ => (varint(unsigned), small.to_string()),
        }
    }

    /// A scalar's bytes.
    fn value(&mut self, kind: &Kind) -> Vec<u8> {
        match kind {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => self.random.next().to_le_bytes().into(),
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => self.random.next().to_le_bytes()[..4].into(),
            Kind::Bool => varint(self.random.next() % 2),
            Kind::Enum(kind) => {
                let values: Vec<i32> = kind.values().map(|value| value.number()).collect();
                let number = values[self.random.below(values.len())];
                varint(i64::from(number).cast_unsigned())
            }
            Kind::String => {
                const TEXTS: [&str; 6] = ["", "a", "order-00042", "größer", "漢字", "a text of more than sixteen bytes"];
                delimited(TEXTS[self.random.below(TEXTS.len())].as_bytes())
            }
            Kind::Bytes => {
                let len = self.random.below(20);
                delimited(&(0..len).map(|_| self.random.next().to_le_bytes()[0]).collect::<Vec<_>>())
            }
            // Of all lengths, not only the longest.
            _ => {
                let shift = self.random.below(64);
                varint(self.random.next() >> shift)
            }
        }
    }

    fn wrong_wire_type(&mut self, root: &Container) -> Invalid {
        let fits = |container: &Container| !container.known.is_empty();
        let Some(address) = self.choose(root, fits) else {
            return self.bad_tag(root, "tag");
        };
        let container = root.at(&address);
        let field = container.known[self.random.below(container.known.len())].clone();
        let wrong: Vec<u32> = [0, 1, 2, 5].into_iter().filter(|wire| *wire != field.wire() && !(*wire == 2 && field.packable())).collect();
        let wire = wrong[self.random.below(wrong.len())];
        let value = match wire {
            0 => varint(self.random.next()),
            1 => vec![7; 8],
            2 => delimited(b"abc"),
            _ => vec![7; 4],
        };
        let index = self.random.below(container.pieces.len() + 1);
        root.with(&address, index, field.broken(wire, &value), "wire-type")
    }

    fn length_past_the_end(&mut self, root: &Container) -> Invalid {
        // A group has no end of its own to go past; and what goes past an end stands right before it.
        let fits = |container: &Container| !container.group && container.known.iter().any(Known::delimited);
        let Some(address) = self.choose(root, fits) else {
            return self.bad_tag(root, "cut");
        };
        let container = root.at(&address);
        let fields: Vec<&Known> = container.known.iter().filter(|field| field.delimited()).collect();
        let field = fields[self.random.below(fields.len())].clone();
        let there = self.random.below(4);
        let mut value = varint((there + 1 + self.random.below(300)) as u64);
        value.resize(value.len() + there, b'a');
        root.with(&address, container.pieces.len(), field.broken(2, &value), "truncated")
    }

    fn bad_text(&mut self, root: &Container) -> Invalid {
        let is_text = |field: &&Known| field.kind == Kind::String;
        let fits = |container: &Container| container.known.iter().any(|field| is_text(&field));
        let Some(address) = self.choose(root, fits) else {
            return self.bad_tag(root, "tag");
        };
        let container = root.at(&address);
        let fields: Vec<&Known> = container.known.iter().filter(is_text).collect();
        let field = fields[self.random.below(fields.len())].clone();
        const BAD: [&[u8]; 5] = [b"\xff", b"abc\xc3", b"\xed\xa0\x80", b"\xc0\x80 and so on", b"eight by\xf5"];
        let value = delimited(BAD[self.random.below(BAD.len())]);
        let index = self.random.below(container.pieces.len() + 1);
        root.with(&address, index, field.broken(2, &value), "utf8")
    }

    /// A tag that is none, in any container; with `cut` one that ends before it is whole.
    fn bad_tag(&mut self, root: &Container, how: &str) -> Invalid {
        let address = self.choose(root, |container| !container.group).unwrap_or_default();
        let container = root.at(&address);
        const BAD: [&[u8]; 4] = [&[0x00, 0x01], &[0x0e], &[0x17], &[0xff, 0xff, 0xff, 0xff, 0x7f, 0x01]];
        let (bytes, index) = match how {
            "cut" => (&[0x8a][..], container.pieces.len()),
            _ => (BAD[self.random.below(BAD.len())], self.random.below(container.pieces.len() + 1)),
        };
        let piece = Piece { number: 0, name: None, indexed: false, body: Body::Bytes(bytes.into()), broken: true };
        root.with(&address, index, piece, "tag")
    }

    /// A container that fits, nested if there is one.
    fn choose(&mut self, root: &Container, fits: impl Fn(&Container) -> bool) -> Option<Vec<usize>> {
        let mut addresses = root.addresses();
        addresses.retain(|address| fits(root.at(address)));
        let nested = addresses.iter().filter(|address| !address.is_empty()).count();
        match (addresses.len(), nested) {
            (0, _) => None,
            (_, 0) => addresses.pop(),
            (all, nested) => Some(addresses.swap_remove(all - nested + self.random.below(nested))),
        }
    }
}

fn field_bytes(number: u32, wire: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = varint(u64::from(number << 3 | wire));
    bytes.extend_from_slice(value);
    bytes
}

fn delimited(value: &[u8]) -> Vec<u8> {
    let mut bytes = varint(value.len() as u64);
    bytes.extend_from_slice(value);
    bytes
}

fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, value);
    bytes
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// SplitMix64: the same seed gives the same payloads on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).expect("below a usize")
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
