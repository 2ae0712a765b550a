// Bounds a map that can grow for weeks: the newest entries are kept.

/**
 * @template K, V
 * @param {Map<K, V>} map
 * @param {K} key
 * @param {V} value
 * @param {number} most maximum number of entries; the oldest is removed
 */
export function keepNewest(map, key, value, most) {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
}
