//! NCCL's results by a plain model: each element's contributions are folded in the order that NCCL's rules give it. Nothing here is
//! taken from the library.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Ring,
    Tree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Simple,
    Ll,
    Ll128,
}

/// The facts that determine the order in which an element's contributions are added.
#[derive(Clone, Debug)]
pub struct Model {
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    /// The machine of each rank.
    pub machines: Vec<usize>,
    pub channels: usize,
    /// 1 if only the first tree is used, else 2.
    pub trees: usize,
    /// Bytes of a channel's buffer for the protocol.
    pub buffer: usize,
    /// Bytes of an element.
    pub size: usize,
    /// Threads of a channel for the protocol.
    pub threads: usize,
}

fn up(number: usize, multiple: usize) -> usize {
    number.div_ceil(multiple) * multiple
}

impl Model {
    fn n(&self) -> usize {
        self.machines.len()
    }

    /// The ranks of each machine, machines in the order in which they come first.
    fn by_machine(&self) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = Vec::new();
        for machine in &self.machines {
            if !order.contains(machine) {
                order.push(*machine);
            }
        }
        order.iter().map(|m| (0..self.n()).filter(|rank| self.machines[*rank] == *m).collect()).collect()
    }

    pub fn ring(&self) -> Vec<usize> {
        self.by_machine().concat()
    }

    /// For an all_reduce of this many elements: the number of channels for which it is large enough.
    fn channels_used(&self, count: usize) -> usize {
        let threads = self.threads;
        let bytes_per_thread = match (self.protocol, self.algorithm) {
            (Protocol::Simple, _) => 64,
            (Protocol::Ll, Algorithm::Ring) => 8 * self.n(),
            _ => 8,
        };
        let mut used = self.channels;
        while used > 1 && count * self.size < used * threads * bytes_per_thread {
            used -= 1;
        }
        used
    }

    /// Elements of each channel: the first, those in the middle, and the last.
    fn shares(&self, count: usize) -> Vec<usize> {
        let per_byte = if self.protocol == Protocol::Ll { 8 } else { 2 };
        let traffic = (count * self.size * per_byte).max(32768) / self.channels_used(count);
        let cell = up(32768usize.div_ceil(per_byte), 16);
        let cells = (count * self.size).div_ceil(cell);
        let mut each = cells.min(traffic.div_ceil(cell * per_byte));
        let first = if self.channels == 1 { cells } else { each };
        let (mut middle, mut last) = ((cells - first) / each, (cells - first) % each);
        if 1 + middle + usize::from(last > 0) > self.channels {
            middle = self.channels - 2;
            each = (cells - first) / (middle + 1);
            last = each + (cells - first) % (middle + 1);
        }
        let mut shares = vec![first];
        shares.extend(vec![each; middle]);
        shares.extend(Some(last).filter(|last| *last > 0));
        let mut left = count;
        let elements = cell / self.size;
        let lens = shares.iter().map(|cells| {
            let len = left.min(cells * elements);
            left -= len;
            len
        });
        lens.collect()
    }

    /// Number of elements of a chunk of an all_reduce's channel with this many elements.
    fn chunk(&self, share: usize) -> usize {
        let slot = self.buffer / 8;
        let (mut bytes, grain) = match (self.protocol, self.algorithm) {
            (Protocol::Simple, Algorithm::Ring) => (4 * slot, 512),
            (Protocol::Simple, Algorithm::Tree) => (slot, 512),
            (Protocol::Ll, _) => (slot / 2, 16),
            (Protocol::Ll128, _) => (slot / 16 * 15, 1920),
        };
        if (self.protocol, self.algorithm) == (Protocol::Ll128, Algorithm::Tree) {
            let machines = self.by_machine().len();
            let ppn = self.n() as f32 / machines as f32;
            let levels = (1.0 + f64::from(machines.ilog2()) + 0.1 * f64::from(ppn)) as f32;
            while ((share * self.size / bytes) as f32) < levels * 64.0 / ppn && bytes > 131_072 {
                bytes /= 2;
            }
            while ((share * self.size / bytes) as f32) < levels * 16.0 / ppn && bytes > 32_768 {
                bytes /= 2;
            }
        }
        (bytes / grain).max(1) * grain / self.size
    }

    /// All results of an all_reduce, each a fold of its contributions by rank.
    pub fn all_reduce<T: Copy>(
        &self,
        count: usize,
        value: impl Fn(usize, usize) -> T,
        add: impl Fn(T, T) -> T,
    ) -> Vec<T> {
        let n = self.n();
        let ring = self.ring();
        let mut results = Vec::with_capacity(count);
        for (channel, share) in self.shares(count).into_iter().enumerate() {
            let start = results.len();
            match self.algorithm {
                Algorithm::Tree => {
                    let children = self.tree(channel % self.trees);
                    let root = (0..n).find(|rank| children.iter().all(|of| !of.contains(rank))).unwrap();
                    results.extend((start..start + share).map(|i| sum(&children, root, &|rank| value(rank, i), &add)));
                }
                Algorithm::Ring => {
                    let chunk = self.chunk(share);
                    for pass in (0..share).step_by(n * chunk) {
                        let left = share - pass;
                        let part = if left < n * chunk { up(left.div_ceil(n), 16 / self.size) } else { chunk };
                        for i in 0..left.min(n * chunk) {
                            let first = i / part + 1;
                            let i = start + pass + i;
                            results.push(around(&ring, first, |rank| value(rank, i), &add));
                        }
                    }
                }
            }
        }
        results
    }

    /// The block of a rank after a reduce_scatter, with `count` elements.
    pub fn reduce_scatter<T: Copy>(
        &self,
        rank: usize,
        count: usize,
        value: impl Fn(usize, usize) -> T,
        add: impl Fn(T, T) -> T,
    ) -> Vec<T> {
        let ring = self.ring();
        let place = ring.iter().position(|there| *there == rank).unwrap();
        (0..count).map(|i| around(&ring, place + 1, |of| value(of, rank * count + i), &add)).collect()
    }

    /// The results of a reduce, which goes along the ring and ends at the root.
    pub fn reduce<T: Copy>(
        &self,
        root: usize,
        count: usize,
        value: impl Fn(usize, usize) -> T,
        add: impl Fn(T, T) -> T,
    ) -> Vec<T> {
        let ring = self.ring();
        let place = ring.iter().position(|there| *there == root).unwrap();
        (0..count).map(|i| around(&ring, place + 1, |of| value(of, i), &add)).collect()
    }

    /// The children of each rank in a tree.
    fn tree(&self, number: usize) -> Vec<Vec<usize>> {
        let machines = self.by_machine();
        let mut children = vec![Vec::new(); self.n()];
        for ranks in &machines {
            for pair in ranks.windows(2) {
                children[pair[0]].push(pair[1]);
            }
        }
        for (machine, below) in double_tree(machines.len(), number) {
            children[machines[machine][0]].extend(below.iter().map(|machine| machines[*machine][0]));
        }
        children
    }
}

/// Nodes with children of NCCL's double binary tree, as drawn by hand.
fn double_tree(machines: usize, number: usize) -> Vec<(usize, &'static [usize])> {
    match (machines, number) {
        (1, _) => vec![],
        (2, 0) => vec![(0, &[1])],
        (2, _) => vec![(1, &[0])],
        (3, 0) => vec![(0, &[2]), (2, &[1])],
        (3, _) => vec![(1, &[0]), (0, &[2])],
        (4, 0) => vec![(0, &[2]), (2, &[1, 3])],
        (4, _) => vec![(3, &[1]), (1, &[2, 0])],
        (5, 0) => vec![(0, &[4]), (4, &[2]), (2, &[1, 3])],
        (5, _) => vec![(1, &[0]), (0, &[3]), (3, &[2, 4])],
        (12, 0) => vec![(0, &[8]), (8, &[4, 10]), (4, &[2, 6]), (10, &[9, 11]), (2, &[1, 3]), (6, &[5, 7])],
        (12, _) => vec![(11, &[3]), (3, &[7, 1]), (7, &[9, 5]), (1, &[2, 0]), (9, &[10, 8]), (5, &[6, 4])],
        (13, 0) => {
            vec![(0, &[8]), (8, &[4, 12]), (4, &[2, 6]), (12, &[10]), (2, &[1, 3]), (6, &[5, 7]), (10, &[9, 11])]
        }
        (13, _) => {
            vec![(1, &[9]), (9, &[5, 0]), (5, &[3, 7]), (0, &[11]), (3, &[2, 4]), (7, &[6, 8]), (11, &[10, 12])]
        }
        _ => panic!("no tree of {machines} is drawn"),
    }
}

/// ((own + child 0) + child 1) + child 2.
fn sum<T: Copy>(children: &[Vec<usize>], rank: usize, value: &dyn Fn(usize) -> T, add: &impl Fn(T, T) -> T) -> T {
    children[rank].iter().fold(value(rank), |all, child| add(all, sum(children, *child, value, add)))
}

/// The contributions of all ranks from a place of the ring on.
fn around<T: Copy>(ring: &[usize], first: usize, value: impl Fn(usize) -> T, add: &impl Fn(T, T) -> T) -> T {
    let at = |step: usize| value(ring[(first + step) % ring.len()]);
    (1..ring.len()).fold(at(0), |all, step| add(all, at(step)))
}
