/* wake: one run waits (event, children or time-out) on PostgreSQL READ COMMITTED, and none of its wake-ups is lost.
   Globals are COMMITTED row versions.  row_lock is the run's row lock.  One atomic{} is one statement's read or write; between two of them
   anything may happen.  What a transaction has written becomes visible in its last atomic (commit), which also frees the lock.
   A statement = snapshot part (reads committed values), lock wait (row_lock==0), re-check of its WHERE on the newest version. */
#ifndef SUSPEND
#define SUSPEND 2   /* 2: fence + UPDATE, then look  1: one statement: it looks on its snapshot from before the lock wait */
#endif
#ifndef WAKE
#define WAKE 0      /* 0: own tx, lock, then second statement  1: own tx, UPDATE .. WHERE status='waiting'
                       2: conditional UPDATE inside the event's own tx  3: lock + wake inside the event's own tx
                       4: own tx, lock and conditional UPDATE in ONE statement (CTE)  5: lock with SKIP LOCKED, give up if held */
#endif
#ifndef CHILD
#define CHILD 0     /* 0: outcome tx, then wake tx that looks at siblings under the lock  1: siblings looked at in the outcome tx */
#endif
#ifndef CANCEL
#define CANCEL 0    /* 0: lock, then set flag and queue if waiting, one tx  1: UPDATE WHERE waiting; UPDATE WHERE running/queued */
#endif
#ifndef LOOKC
#define LOOKC 0     /* 1: the look also sees cancel_requested_at (the protocol) */
#endif
#ifndef SWEEP
#define SWEEP 1     /* 0: none  1: wakes for events and children  2: events only  3: also for cancel_requested_at */
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef LAPSES      /* a live worker loses its lease (frozen, thawed) */
#define LAPSES 1
#endif
#ifndef GUARD
#define GUARD 1     /* completing looks at cancel_requested_at under its lock */
#endif
#ifndef RECHECK
#define RECHECK 1   /* claim re-checks status under the row lock */
#endif
#ifndef CLAIMREADS
#define CLAIMREADS 0 /* 1: the journal is read in the claiming statement itself (RETURNING, CTE), so on its snapshot */
#endif
#ifndef ANY
#define ANY 0       /* the run races two children, the second never ends; woken 1: when no awaited child is live, 2: when its wait is satisfied */
#endif
#ifndef LOOKALL
#define LOOKALL 1   /* 0: the look takes any finished child of a fan-out */
#endif
mtype = { QUEUED, RUNNING, WAITING, SUCCEEDED, CANCELLED };
mtype:x = { EVENT, CHILDREN };
mtype status = QUEUED;
mtype:x kind = EVENT;
byte row_lock = 0;                  /* who holds the run's row lock: 1,2 workers, 3 sender, 4,5 children, 6 canceller */
bool own[3];                  /* own[w]: lease_token is the one that worker w got at its current claim */
bool event_sent = false; byte consumed = 0; byte journal = 0;  /* 1 woken by what it waited for, 2 timed out */
bool c1 = false, c2 = false;  /* children terminal, committed */
bool cancel_requested = false, missed = false, has_timeout = false, due = false;
byte crashes = 0, lapses = 0, spins = 0;
#define TERM (status==SUCCEEDED || status==CANCELLED)
#define FANOUT ((c1 && c2) || (ANY==2 && (c1 || c2)))
#define EVREADY (kind==EVENT && event_sent && consumed==0)
#define READY (EVREADY || (kind==CHILDREN && FANOUT))                                /* wakes, sweep */
#define USABLE (READY || (kind==CHILDREN && ANY && (c1 || c2)))                      /* what a replay can use */
#define LOOK (READY || (!LOOKALL && kind==CHILDREN && (c1 || c2)) || (LOOKC && cancel_requested))
#define CLAIMABLE (status==QUEUED || (status==WAITING && due))
inline set(x) { assert(!TERM); status = x; own[1] = false; own[2] = false }
#define CRASH_OR(l) if :: crashes<CRASHES -> crashes++; goto l :: true fi

proctype Worker(byte w) { bool f; byte j;
end_w: do
  :: atomic { CLAIMABLE -> if :: CLAIMREADS -> j = journal :: else fi }     /* claim: snapshot, SKIP LOCKED, re-check, commit */
     atomic { row_lock==0 -> if :: CLAIMABLE || !RECHECK -> assert(!own[3-w] && !TERM); set(RUNNING); own[w] = true; if :: !CLAIMREADS -> j = journal :: else fi :: else -> goto again fi }
     CRASH_OR(dead);                                                        /* below: replay up to the wait */
     if :: atomic { j!=0 -> skip }
     :: atomic { j==0 && cancel_requested -> skip }                               /* cancel seen at replay: ends without waiting */
     :: atomic { j==0 && !cancel_requested && USABLE -> skip }
        atomic { row_lock==0 -> if :: own[w] -> journal = 1; if :: kind==EVENT -> consumed++ :: else fi :: else -> goto again fi }
     :: atomic { j==0 && !cancel_requested && !USABLE && due -> skip }
        atomic { row_lock==0 -> if :: own[w] -> journal = 2 :: else -> goto again fi }
     :: atomic { j==0 && !cancel_requested && !USABLE && !due -> skip }
        CRASH_OR(dead);
#if SUSPEND==1
        atomic { f = LOOK; if :: own[w] -> skip :: else -> goto again fi }  /* snapshot */
        atomic { row_lock==0 -> if :: own[w] -> row_lock = w :: else -> goto again fi } /* lock wait, re-check */
#else
        atomic { row_lock==0 -> if :: own[w] -> row_lock = w :: else -> goto again fi } /* fence (and UPDATE, unseen by others) */
        atomic { f = LOOK }                                                 /* a later statement: new snapshot */
#endif
        atomic { if :: f -> set(QUEUED); if :: spins<2 -> spins++ :: else fi; assert(spins<=1 || CLAIMREADS) :: else -> set(WAITING) fi; row_lock = 0; goto again }   /* commit */
     fi;
     CRASH_OR(dead);
     atomic { row_lock==0 -> if :: own[w] -> if :: GUARD && cancel_requested -> set(CANCELLED) :: else -> assert(!cancel_requested); set(SUCCEEDED) fi :: else fi };
     goto again;
dead: own[w] = false;                                       /* memory gone; the row stays running until reaped */
again: atomic { f = false; j = 0 }
  od }

inline wake(me, cond) {       /* the short transaction after the commit of what was waited for */
#if WAKE==1 || WAKE==2
  if :: atomic { !(status==WAITING && cond) -> skip }                              /* visible version does not match: 0 rows, no wait */
  :: atomic { status==WAITING && cond -> skip }; atomic { row_lock==0 -> if :: status==WAITING -> set(QUEUED) :: else fi }
  fi
#elif WAKE==4
  atomic { saww = (status==WAITING) }; atomic { row_lock==0 -> if :: saww && status==WAITING && cond -> set(QUEUED) :: else fi }
#elif WAKE==5
  if :: atomic { row_lock!=0 -> skip } :: atomic { row_lock==0 -> if :: status==WAITING && cond -> set(QUEUED) :: else fi } fi
#else
  atomic { row_lock==0 -> row_lock = me }; atomic { if :: status==WAITING && cond -> set(QUEUED) :: else fi; row_lock = 0 }
#endif
}
proctype Sender() { bool saww;
  if :: true -> goto end :: true fi;                                        /* may never send */
#if WAKE==2
  if :: atomic { status!=WAITING -> event_sent = true }                                    /* wake finds 0 rows; commit */
  :: atomic { status==WAITING -> skip }; atomic { row_lock==0 -> event_sent = true; if :: status==WAITING -> set(QUEUED) :: else fi }
  :: atomic { status!=WAITING -> skip }; event_sent = true                                 /* the same, commit later */
  fi
#elif WAKE==3
  atomic { row_lock==0 -> row_lock = 3 }; atomic { event_sent = true; if :: status==WAITING -> set(QUEUED) :: else fi; row_lock = 0 }
#else
  event_sent = true; CRASH_OR(end); wake(3, EVREADY)
#endif
end: skip }
proctype Child(byte n) { bool saww, last;
  if :: n==2 && ANY -> goto end :: else fi;
  if :: true -> goto end :: true fi;                                        /* may run for ever */
#if CHILD==1
  atomic { last = (n==1 -> c2 : c1) };                                      /* own outcome tx: the sibling's is not committed yet */
#else
  last = true;
#endif
  atomic { if :: n==1 -> c1 = true :: else -> c2 = true fi };
  CRASH_OR(end);
  if :: last -> wake(3+n, (CHILD==1 || FANOUT)) :: else fi;
end: skip }
proctype Canceller() {
  if :: true -> goto end :: true fi;
#if CANCEL==0
  atomic { row_lock==0 -> row_lock = 6 };                                               /* perhaps a long open web transaction */
  atomic { if :: TERM -> skip :: else -> cancel_requested = true; if :: status==WAITING -> set(QUEUED) :: else fi fi; row_lock = 0 }
#else
  if :: atomic { status!=WAITING -> skip } :: atomic { status==WAITING -> skip }; atomic { row_lock==0 -> if :: status==WAITING -> cancel_requested = true; set(QUEUED); goto end :: else fi } fi;
  if :: atomic { !(status==RUNNING || status==QUEUED) -> skip } :: atomic { status==RUNNING || status==QUEUED -> skip };
     atomic { row_lock==0 -> if :: status==RUNNING || status==QUEUED -> cancel_requested = true; goto end :: else fi } fi;
  atomic { assert(TERM) }                                                   /* 0 rows twice: the caller is told "already over" */
#endif
end: skip }
proctype Promoter() { end_p: do :: atomic { status==WAITING && has_timeout && !due -> due = true } :: atomic { row_lock==0 && status==WAITING && due -> set(QUEUED) } :: atomic { TERM -> break } od }
proctype Reaper() { end_r: do
  :: atomic { row_lock==0 && status==RUNNING && !own[1] && !own[2] -> set(QUEUED) }
  :: atomic { row_lock==0 && status==RUNNING && (own[1] || own[2]) && lapses<LAPSES -> lapses++; set(QUEUED) }
  :: atomic { TERM -> break } od }
proctype Sweep() { end_s: do :: atomic { row_lock==0 && status==WAITING && (EVREADY || (SWEEP!=2 && READY) || (SWEEP==3 && cancel_requested)) -> set(QUEUED) } :: atomic { TERM -> break } od }
init { atomic {
  if :: kind = EVENT; if :: has_timeout = true :: has_timeout = false fi; run Sender() :: kind = CHILDREN; run Child(1); run Child(2) fi;
  run Worker(1); run Worker(2); run Canceller(); run Promoter(); run Reaper();
  if :: SWEEP -> run Sweep() :: else fi } }
ltl woken { [] ((status==WAITING && USABLE) -> <> (status!=WAITING)) }
ltl ends { [] ((cancel_requested || (status==RUNNING && journal!=0)) -> <> TERM) }
ltl safe { ([] (consumed<=1 && !(journal==2 && consumed>0))) && ([] ((cancel_requested && !TERM) -> [] (status!=SUCCEEDED)))
           && ([] (status==SUCCEEDED -> [] (status==SUCCEEDED))) && ([] (status==CANCELLED -> [] (status==CANCELLED))) }
