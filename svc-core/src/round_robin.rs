//! A map whose keys take turns.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// A map from keys to values, with the order in which the keys take turns. A new key is last.
pub(crate) struct RoundRobin<K, V> {
    order: VecDeque<K>,
    values: HashMap<K, V>,
}

impl<K, V> Default for RoundRobin<K, V> {
    fn default() -> Self {
        Self { order: VecDeque::new(), values: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash, V> RoundRobin<K, V> {
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the keys in the order of their turns.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.order.iter().copied()
    }

    /// Returns the keys with their values in the order of their turns.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.order.iter().filter_map(|key| Some((*key, self.values.get(key)?)))
    }

    pub fn get(&self, key: K) -> Option<&V> {
        self.values.get(&key)
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.values.get_mut(&key)
    }

    /// Returns the value of a key. A new key is created with a default value.
    pub fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.values.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            V::default()
        })
    }

    /// Moves a key to the front, so that it has the next turn.
    pub fn move_to_front(&mut self, key: K) {
        if self.remove_from_order(key) {
            self.order.push_front(key);
        }
    }

    /// Ends the turn of a key, and moves the key to the end of the order.
    pub fn end_turn(&mut self, key: K) {
        if self.remove_from_order(key) {
            self.order.push_back(key);
        }
    }

    pub fn remove(&mut self, key: K) {
        self.remove_from_order(key);
        self.values.remove(&key);
    }

    /// Removes a key from the order, and returns whether it was present.
    fn remove_from_order(&mut self, key: K) -> bool {
        if self.order.front() == Some(&key) {
            return self.order.pop_front().is_some();
        }
        let place = self.order.iter().position(|other| *other == key);
        place.and_then(|place| self.order.remove(place)).is_some()
    }
}

impl<K: Copy + Eq + Hash, T> RoundRobin<K, VecDeque<T>> {
    /// Removes and returns the first item of a key, and ends the key's turn.
    ///
    /// A key without further items is removed.
    pub fn pop(&mut self, key: K) -> Option<T> {
        let items = self.values.get_mut(&key)?;
        let item = items.pop_front();
        if items.is_empty() {
            self.remove(key)
        } else {
            self.end_turn(key)
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_take_turns() {
        let mut rota: RoundRobin<char, usize> = RoundRobin::default();
        "abca".chars().for_each(|key| *rota.entry(key) += 1);
        let order = |rota: &RoundRobin<char, usize>| rota.keys().collect::<String>();
        assert_eq!((order(&rota).as_str(), rota.get('a')), ("abc", Some(&2)));
        rota.end_turn('a');
        rota.move_to_front('c');
        assert_eq!(order(&rota), "cba");
        rota.remove('b');
        rota.end_turn('b');
        rota.move_to_front('b');
        assert_eq!(rota.iter().collect::<Vec<_>>(), [('c', &1), ('a', &2)]);
        rota.remove('a');
        rota.remove('c');
        assert!(rota.is_empty() && rota.get('c').is_none());
    }

    #[test]
    fn the_items_of_keys_are_taken_in_turn() {
        let mut rota: RoundRobin<char, VecDeque<usize>> = RoundRobin::default();
        "aab".chars().enumerate().for_each(|(number, key)| rota.entry(key).push_back(number));
        let mut taken = Vec::new();
        for _ in 0..3 {
            let key = rota.keys().next().unwrap();
            taken.extend(rota.pop(key));
        }
        assert!(taken == [0, 2, 1] && rota.is_empty() && rota.pop('a').is_none());
    }
}
