// Formats numbers, money, times and durations in the user's language.
//
// Not here: texts of the board.

/** @typedef {string | undefined} Locale the browser's language by default */

/** Formatters, cached because creating one is slow. @type {Map<string, any>} */
const made = new Map();

/**
 * @template T
 * @param {string} name
 * @param {Locale} locale
 * @param {() => T} make
 * @returns {T}
 */
function kept(name, locale, make) {
  const key = `${name} ${locale ?? ""}`;
  if (!made.has(key)) made.set(key, make());
  return made.get(key);
}

/** @param {number} value @param {Locale} [locale] */
export function number(value, locale) {
  return kept("number", locale, () => new Intl.NumberFormat(locale)).format(value);
}

/** @param {number} value @param {Locale} [locale] */
export function compact(value, locale) {
  const options = /** @type {const} */ ({ notation: "compact", maximumFractionDigits: 1 });
  return kept("compact", locale, () => new Intl.NumberFormat(locale, options)).format(value);
}

/** @param {number} share @param {Locale} [locale] */
export function percent(share, locale) {
  // Rounds down below 100 %, so that 99.6 % is not shown as 100 %.
  const whole = share < 1 ? Math.floor(share * 100) / 100 : share;
  return kept("percent", locale, () => new Intl.NumberFormat(locale, { style: "percent" })).format(whole);
}

const MICROS = 1_000_000;

/** @param {number} micros millionths of a US dollar @param {Locale} [locale] */
export function money(micros, locale) {
  const isSmall = micros !== 0 && Math.abs(micros) < MICROS;
  const digits = isSmall ? 4 : 2;
  const options = /** @type {const} */ ({
    style: "currency",
    currency: "USD",
    minimumFractionDigits: 2,
    maximumFractionDigits: digits,
  });
  return kept(`money${digits}`, locale, () => new Intl.NumberFormat(locale, options)).format(micros / MICROS);
}

const BYTES = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];

/** @param {number} count @param {Locale} [locale] */
export function bytes(count, locale) {
  let [value, at] = [count, 0];
  while (value >= 1000 && at < BYTES.length - 1) [value, at] = [value / 1000, at + 1];
  return inUnit(value, BYTES[at], locale, 1);
}

/** @param {number} value @param {string} unit @param {Locale} locale @param {number} [digits] */
function inUnit(value, unit, locale, digits = 0) {
  const options = /** @type {const} */ ({ style: "unit", unitDisplay: "short" });
  const make = () => new Intl.NumberFormat(locale, { ...options, unit, maximumFractionDigits: digits });
  return kept(`${unit}${digits}`, locale, make).format(value);
}

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
];

/**
 * Formats a duration in its two largest units.
 * @param {number} length in ms
 * @param {Locale} [locale]
 */
export function duration(length, locale) {
  const parts = [];
  let rest = Math.max(0, Math.floor(length / 1000) * 1000);
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push({ unit, count });
    else if (parts.length) break;
    if (parts.length === 2) break;
  }
  if (parts.length === 0) parts.push({ unit: "second", count: 0 });
  return parts.map(({ unit, count }) => inUnit(count, unit, locale)).join(" ");
}

/**
 * Formats a time relative to now.
 * @param {number} then @param {number} now @param {Locale} [locale]
 */
export function relative(then, now, locale) {
  const away = then - now;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(away) >= size) ?? UNITS[UNITS.length - 1];
  const format = kept("relative", locale, () => new Intl.RelativeTimeFormat(locale, { numeric: "auto" }));
  return format.format(Math.trunc(away / size), unit);
}

/** @param {number} at @param {Locale} [locale] */
export function time(at, locale) {
  const make = () => new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
  return kept("time", locale, make).format(at);
}

/** @param {number} at @param {Locale} [locale] */
export function day(at, locale) {
  return kept("day", locale, () => new Intl.DateTimeFormat(locale, { dateStyle: "medium" })).format(at);
}

/** @param {number} at @param {Locale} [locale] */
export function dateTime(at, locale) {
  const make = () => new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });
  return kept("both", locale, make).format(at);
}

/**
 * Formats a time of day, with the date if it is not today.
 * @param {number} at @param {number} now @param {Locale} [locale]
 */
export function when(at, now, locale) {
  return day(at, locale) === day(now, locale) ? time(at, locale) : dateTime(at, locale);
}

/** @param {string[]} items @param {Locale} [locale] */
export function list(items, locale) {
  return kept("list", locale, () => new Intl.ListFormat(locale, { type: "conjunction" })).format(items);
}

/** Returns the end of an id, which differs between ids created at the same time. @param {string} id */
export function shortId(id) {
  return id.slice(-6);
}
