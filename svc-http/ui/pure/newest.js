// A map that can grow for weeks: of what is noted, the newest is kept.

/**
 * @template K, V
 * @param {Map<K, V>} map
 * @param {K} key
 * @param {V} value
 * @param {number} most how much is kept; what was noted longest ago goes
 */
export function keepNewest(map, key, value, most) {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
}
