//! A rank of the measured child: a thread that creates communicators and calls collectives on request.
use collspec_core::cores::own_processors;
use collspec_core::num::DType;
use collspec_core::ops::NcclCall;
use collspec_run::backend::{CollectiveCall, CommSlot, Device, DeviceMemory, DeviceStream, Library};
use collspec_run::job::Traffic;
use nccl_sys::{ncclRedOp_t, ncclUniqueId};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The next action of a rank.
#[derive(Clone)]
pub enum Order {
    /// Joins a new communicator of this many ranks.
    Init { library: &'static Library, id: ncclUniqueId, ranks: usize },
    /// Calls a collective on this many bytes of a type and waits for its end. Its traffic counts under the tag, if there is one.
    Collective { call: NcclCall, bytes: u64, dtype: DType, tag: Option<u32> },
    /// Calls many small all-reduces and waits for their end.
    SmallCalls { count: usize },
    /// Destroys the rank's communicator.
    Destroy,
}

/// The answer of a rank when it has carried out an order.
#[derive(Clone, Debug)]
pub struct Done {
    /// The processors that its thread may run on.
    pub processors: Vec<usize>,
    /// The traffic of a collective, if the library counts it.
    pub traffic: Option<Traffic>,
}

/// Handles to the rank threads.
pub struct Ranks {
    orders: Vec<Sender<Order>>,
    done: Receiver<(usize, Result<Done, String>)>,
}

impl Ranks {
    /// Starts a thread for each of these ranks, of `world` in all processes, with buffers for operations on this many bytes, and waits until all are
    /// ready. The first of them has this process's first device.
    ///
    /// # Errors
    ///
    /// A thread, a stream or memory cannot be obtained.
    pub fn start(own: Range<usize>, world: usize, device: Device, largest: u64) -> Result<(Self, Vec<Done>), String> {
        let (tell, done) = channel();
        let mut orders = Vec::new();
        let first = own.start;
        for rank in own {
            let (order, receive) = channel();
            let tell = tell.clone();
            let body = move || {
                let mut one = match Rank::new((rank, rank - first), world, device, largest) {
                    Ok(one) => one,
                    Err(why) => return drop(tell.send((rank, Err(why)))),
                };
                // The receiver is gone once another rank has failed.
                let _ = tell.send((rank, Ok(one.done(None))));
                for order in receive {
                    let _ = tell.send((rank, one.carry_out(&order)));
                }
            };
            let thread = thread::Builder::new().name(format!("rank {rank}"));
            thread.spawn(body).map_err(|error| format!("no thread for rank {rank}: {error}"))?;
            orders.push(order);
        }
        let ranks = Self { orders, done };
        let ready = ranks.wait(true)?;
        Ok((ranks, ready))
    }

    /// Has all ranks carry out an order, and waits for all, but not after the first that fails.
    ///
    /// # Errors
    ///
    /// The first failure of a rank.
    pub fn all(&self, order: &Order) -> Result<Vec<Done>, String> {
        self.tell(order);
        self.wait(true)
    }

    /// Has rank 0 carry out an order, and waits for it.
    ///
    /// # Errors
    ///
    /// Its failure.
    pub fn first_alone(&self, order: &Order) -> Result<Done, String> {
        // A rank that is gone does not answer, and the process ends at its time limit.
        let _ = self.orders.first().map(|rank| rank.send(order.clone()));
        let (_, answer) = self.done.recv().map_err(|_| "the thread of rank 0 has ended".to_owned())?;
        answer.map_err(|why| format!("rank 0: {why}"))
    }

    /// Like [`Self::all`], but waits for all ranks even if one fails, so that they can continue.
    ///
    /// # Errors
    ///
    /// The first failure of a rank.
    pub fn all_to_the_last(&self, order: &Order) -> Result<Vec<Done>, String> {
        self.tell(order);
        self.wait(false)
    }

    fn tell(&self, order: &Order) {
        for rank in &self.orders {
            // A rank that is gone is missed by `wait`.
            let _ = rank.send(order.clone());
        }
    }

    fn wait(&self, fail_at_once: bool) -> Result<Vec<Done>, String> {
        let mut all = Vec::new();
        let mut failed = None;
        for _ in &self.orders {
            match self.done.recv().map_err(|_| "a rank's thread has ended".to_owned())? {
                (rank, Ok(done)) => all.push((rank, done)),
                (rank, Err(why)) => {
                    failed.get_or_insert(format!("rank {rank}: {why}"));
                    if fail_at_once {
                        break;
                    }
                }
            }
        }
        all.sort_by_key(|(rank, _)| *rank);
        failed.map_or_else(|| Ok(all.into_iter().map(|(_, done)| done).collect()), Err)
    }
}

struct Rank {
    number: usize,
    own_device: usize,
    count: usize,
    device: Device,
    stream: DeviceStream,
    send: DeviceMemory,
    recv: DeviceMemory,
    comm: Option<(&'static Library, CommSlot)>,
}

/// The bytes of a small call.
pub const SMALL: u64 = 1 << 10;

impl Rank {
    fn new((number, own_device): (usize, usize), count: usize, device: Device, largest: u64) -> Result<Self, String> {
        let text = |error: collspec_run::backend::DeviceError| error.to_string();
        device.bind(own_device).map_err(text)?;
        Ok(Self {
            number,
            own_device,
            count,
            device,
            stream: device.stream().map_err(text)?,
            send: device.alloc(largest).map_err(text)?,
            recv: device.alloc(largest).map_err(text)?,
            comm: None,
        })
    }

    fn done(&self, traffic: Option<Traffic>) -> Done {
        Done { processors: own_processors(), traffic }
    }

    fn carry_out(&mut self, order: &Order) -> Result<Done, String> {
        let traffic = match order {
            Order::Init { library, id, ranks } => {
                // The end of the last communicator may have left another device current.
                self.device.bind(self.own_device).map_err(|error| error.to_string())?;
                let slot = CommSlot::default();
                let (count, rank) = (*ranks as i32, self.number as i32);
                library.init_rank(&slot, count, *id, rank, &[]).map_err(|error| error.to_string())?;
                self.comm = Some((library, slot));
                None
            }
            Order::Collective { call, bytes, dtype, tag } => self.collective(*call, *bytes, *dtype, *tag)?,
            Order::SmallCalls { count } => {
                for _ in 0..*count {
                    self.collective(NcclCall::AllReduce, SMALL, DType::F32, None)?;
                }
                None
            }
            Order::Destroy => {
                let (library, slot) = self.comm.take().ok_or("there is no communicator")?;
                library.destroy(slot.get()).map_err(|error| error.to_string())?;
                None
            }
        };
        Ok(self.done(traffic))
    }

    fn collective(
        &mut self,
        call: NcclCall,
        bytes: u64,
        dtype: DType,
        tag: Option<u32>,
    ) -> Result<Option<Traffic>, String> {
        let (library, slot) = self.comm.as_ref().ok_or("there is no communicator")?;
        let comm = slot.get();
        let elements = bytes / dtype.size() as u64;
        let count = match call {
            // Its count is that of a rank; NCCL's log counts all ranks' bytes.
            NcclCall::AllGather | NcclCall::ReduceScatter => elements / self.count as u64,
            _ => elements,
        };
        let counted = tag.filter(|tag| library.count_traffic_under(comm, *tag));
        let at = |memory: &DeviceMemory| memory.at(0, bytes).map_err(|error| error.to_string());
        let (send, recv) = (at(&self.send)?, at(&self.recv)?);
        let (op, stream, algorithm) = (ncclRedOp_t::Sum, &self.stream, None);
        library
            .collective(&CollectiveCall { call, send, recv, count, dtype, op, root: 0, comm, stream, algorithm })
            .map_err(|error| error.to_string())?;
        self.stream.synchronize_unless(&|| false).map_err(|error| error.to_string())?;
        library.async_error(comm).map_err(|error| error.to_string())?;
        Ok(counted.and_then(|tag| library.traffic(comm, tag)))
    }
}
