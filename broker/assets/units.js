// Lengths of time and sizes as people write them, as the numbers that the API takes. `none` is 0.

const DURATIONS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SIZES = { "": 1, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4 };

function parsed(text, units, example) {
  const written = text.trim();
  if (written === "none" || written === "0") return 0;
  const [, number, unit] = /^(\d+)\s*([A-Za-z]*)$/.exec(written) ?? [];
  const factor = units[unit];
  if (number === undefined || factor === undefined) throw new Error(`${JSON.stringify(text)} is written as ${example}`);
  return Number(number) * factor;
}

/** Milliseconds. */
export const duration = (text) => parsed(text, DURATIONS, "500ms, 30s, 5m, 2h, 7d or none");

/** Bytes. */
export const size = (text) => parsed(text, SIZES, "64KiB, 1MiB, 10GiB, plain bytes or none");

/** A number of things. */
export function number(text) {
  const written = text.trim().replaceAll(",", "");
  if (written === "none") return 0;
  if (!/^\d+$/.test(written)) throw new Error(`${JSON.stringify(text)} is not a number`);
  return Number(written);
}
