// Message ids: 16 bytes on the wire, a ULID's 26 characters for people.

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ID_BYTES = 16;
const ID_CHARACTERS = 26;

/** The text of an id. */
export function formatId(bytes: Uint8Array): string {
  let text = "";
  // 16 bytes are 128 bits, 26 characters are 130: the first character begins with two bits of nothing.
  let [bits, count] = [0, 2];
  for (let at = 0; at < ID_BYTES; at += 1) {
    bits = ((bits << 8) | (bytes[at] ?? 0)) & 0xffff;
    count += 8;
    while (count >= 5) {
      count -= 5;
      text += ALPHABET.charAt((bits >> count) & 31);
    }
  }
  return text;
}

/** The bytes of an id. Throws when the text is none. */
export function parseId(text: string): Uint8Array {
  const digits = [...text.toUpperCase()].map((character) => ALPHABET.indexOf(character));
  if (digits.length !== ID_CHARACTERS || digits.includes(-1) || (digits[0] ?? 8) > 7) {
    throw new TypeError(`${JSON.stringify(text)} is no message id; it has 26 characters of Crockford's base32`);
  }
  let bits = digits.reduce((bits, digit) => (bits << 5n) | BigInt(digit), 0n);
  const bytes = new Uint8Array(ID_BYTES);
  for (let at = ID_BYTES - 1; at >= 0; at -= 1) {
    bytes[at] = Number(bits & 255n);
    bits >>= 8n;
  }
  return bytes;
}
