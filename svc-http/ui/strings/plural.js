// Numbers with the matching form of their noun.

const rules = new Intl.PluralRules("en");
const numbers = new Intl.NumberFormat("en");

/**
 * @param {number} count
 * @param {{one: string, other: string}} forms Forms of the noun, with `#` for the number.
 * @returns {string}
 */
export function plural(count, forms) {
  const form = rules.select(count) === "one" ? forms.one : forms.other;
  return form.replace("#", numbers.format(count));
}
