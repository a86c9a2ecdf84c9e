//! Keeps the file order of items right when a group puts brackets around some of them.
use super::item::Item;

/// Rebuilds the entries of `order` from `mark` on, after items were inserted before and after each rank's items from `starts` on.
/// Relative order among ranks inside one group does not matter: nothing in a group reads what another item writes.
pub fn restore(order: &mut Vec<(usize, usize)>, mark: usize, items: &[Vec<Item>], starts: &[usize]) {
    let mut next: Vec<usize> = starts.to_vec();
    let tail: Vec<usize> = order.drain(mark..).map(|(rank, _)| rank).collect();
    for rank in tail {
        order.push((rank, next[rank]));
        next[rank] += 1;
    }
    for (rank, list) in items.iter().enumerate() {
        while next[rank] < list.len() {
            order.push((rank, next[rank]));
            next[rank] += 1;
        }
    }
}
