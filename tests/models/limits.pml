/* limits: limit 1 on a key, three queued runs, two workers, a Redis list that loses and duplicates ids.
   Globals are COMMITTED versions; limit_row is the row lock of the key's limit row.  One atomic{} is one statement's read or write. */
#ifndef CLAIM
#define CLAIM 2      /* 2: lock limit row, then count and claim  1: one statement, count on the snapshot from before the lock wait
                        0: the sweep's plain one-statement claim also takes limited runs */
#endif
#ifndef ROW
#define ROW 1        /* 0: the limit row does not exist (yet, or pruned): nothing to lock */
#endif
#ifndef SWEEP
#define SWEEP 1      /* a worker also claims the oldest queued row from the database */
#endif
#ifndef REAP
#define REAP 1
#endif
#ifndef AGE
#define AGE 1        /* oldest first by 1: time of (re)queueing  0: time of creation */
#endif
#ifndef ENDLESS
#define ENDLESS 0    /* 1: run 0 suspends and is woken for ever  2: run 0 holds the slot for ever */
#endif
#ifndef FREE
#define FREE 0       /* 1: run 2 has no limit (its id was pushed at enqueue) */
#endif
#ifndef SKIPFULL
#define SKIPFULL 1   /* the sweep's "oldest" are the oldest that can start; 0: the oldest queued, whatever their key */
#endif
#ifndef ADMITTED
#define ADMITTED 0   /* 1: the admit tick counts an admitted id as taking the room */
#endif
#ifndef COUNTER
#define COUNTER 0    /* 1: a counter column in place of counting rows */
#endif
#ifndef LOSSES
#define LOSSES 9     /* ids that Redis may lose; 9: no bound */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#define N 3
#define QUEUED 0
#define RUNNING 1
#define WAITING 2
#define SUCCEEDED 3
byte status[N]; byte own[N];                 /* own: worker whose token it is, 0: its process died */
byte limit_row = 0; byte used = 0; byte crashes = 0, lapses = 0, dups = 0, losses = 0; byte susps = 0; byte adm = 9;
chan list = [2] of { byte };             /* Redis: a bounded window */
chan age = [3] of { byte };              /* queued ids in order of queueing (part of the database) */
hidden byte h;                            /* scratch, used inside one atomic only */
#define KEYED(i) (!(FREE && i==2))
#define LEASED (((status[0]==RUNNING) + (status[1]==RUNNING)) + (status[2]==RUNNING && KEYED(2)))
#define ROOM (COUNTER -> used==0 : LEASED==0)
#define CANSTART(i) (status[i]==QUEUED && (!SKIPFULL || !KEYED(i) || ROOM))
inline enq(i) { status[i] = QUEUED; own[i] = 0; age!i }
inline oldest() {                        /* h = oldest that the sweep considers, 9 none */
  if :: AGE==0 -> if :: CANSTART(0) -> h = 0 :: else -> if :: CANSTART(1) -> h = 1 :: else -> if :: CANSTART(2) -> h = 2 :: else -> h = 9 fi fi fi
  :: else -> if :: empty(age) -> h = 9 :: nempty(age) -> age?<h>;
       if :: SKIPFULL && !ROOM && KEYED(h) -> if :: FREE && status[2]==QUEUED -> h = 2 :: else -> h = 9 fi :: else fi fi
  fi }
inline take(i) { status[i] = RUNNING; own[i] = w; age??eval(i); if :: KEYED(i) -> used = used + COUNTER; if :: adm==i -> adm = 9 :: else fi :: else fi }
inline release(i) { if :: COUNTER && KEYED(i) -> used-- :: else fi }
#define PUSH(i) if :: nfull(list) -> list!i :: full(list) fi
proctype Worker(byte w) { byte id, n; bool turn, ok;
end_w: do
  :: atomic { nempty(list) && !turn -> list?id; turn = SWEEP; n = 0; ok = (CLAIM==0) ; if :: !KEYED(id) -> goto plain :: else -> goto claim fi }
  :: atomic { SWEEP && (turn || empty(list)) -> turn = 0; oldest(); if :: h!=9 -> id = h :: else -> goto end_w fi;
              if :: !KEYED(id) || CLAIM==0 -> goto plain :: else fi }
claim:
#if CLAIM==1
     n = LEASED;                                                       /* snapshot */
     atomic { limit_row==0 || !ROW -> limit_row = w };                             /* lock wait */
#else
     atomic { limit_row==0 || !ROW -> limit_row = w };                             /* statement 1 */
     n = (ROOM -> 0 : 1);                                              /* statement 2: new snapshot */
#endif
     atomic { if :: n==0 && status[id]==QUEUED -> take(id); limit_row = 0 :: else -> limit_row = 0; id = 0; n = 0; goto end_w fi };  /* commit */
     goto body;
plain: atomic { if :: status[id]==QUEUED -> take(id) :: else -> id = 0; n = 0; goto end_w fi };
body: assert(LEASED<=1);
     if
     :: atomic { ENDLESS==2 && id==0 -> own[0] = 9; id = 0; n = 0 }    /* runs on, far away from this model's workers */
     :: atomic { !(ENDLESS==2 && id==0) && !(ENDLESS==1 && id==0) -> if :: status[id]==RUNNING && own[id]==w -> status[id] = SUCCEEDED; own[id] = 0; release(id) :: else fi }
     :: atomic { ENDLESS!=2 && (susps<1 || (ENDLESS==1 && id==0)) ->
                 if :: status[id]==RUNNING && own[id]==w -> status[id] = WAITING; own[id] = 0; release(id); if :: ENDLESS==1 && id==0 -> skip :: else -> susps++ fi :: else fi }
     :: atomic { crashes<CRASHES -> crashes++; if :: status[id]==RUNNING && own[id]==w -> own[id] = 0 :: else fi }   /* the counter stays */
     fi;
     atomic { id = 0; n = 0 }
  od }
proctype Env(byte i) { end_e: do                                      /* one each, so that fairness holds for each run */
  :: atomic { REAP && status[i]==RUNNING && own[i]==0 -> enq(i) }              /* reap: its process died */
  :: atomic { lapses<1 && i==1 && status[i]==RUNNING && own[i]!=0 -> lapses++; enq(i); release(i) }   /* frozen holder: zombie from now on */
  :: atomic { status[i]==WAITING -> enq(i) }                                  /* woken */
  od }
proctype Admit() { end_a: do
  :: atomic { ROOM && nfull(list) && (!ADMITTED || adm==9) && ((status[0]==QUEUED) || (status[1]==QUEUED) || (status[2]==QUEUED && KEYED(2))) ->
       if :: AGE==0 -> if :: status[0]==QUEUED -> h = 0 :: else -> if :: status[1]==QUEUED -> h = 1 :: else -> h = 2 fi fi
       :: else -> age?<h>; if :: !KEYED(h) -> if :: status[0]==QUEUED -> h = 0 :: else -> h = 1 fi :: else fi fi;
       list!h; if :: ADMITTED -> adm = h :: else fi }
  od }
proctype Redis() { end_l: do
  :: atomic { nempty(list) && (LOSSES==9 || losses<LOSSES) -> list?_; losses = (LOSSES==9 -> 0 : losses+1) }
  :: atomic { dups<1 && nempty(list) && nfull(list) -> list?<h>; list!h; dups++ } od }
init { atomic { age!0; age!1; age!2; if :: FREE -> PUSH(2) :: else fi;
  run Worker(1); run Worker(2); run Env(0); run Env(1); run Env(2); run Admit(); run Redis() } }
ltl at_most_one { [] (LEASED<=1) }
ltl all_end { <> ((status[0]==SUCCEEDED || ENDLESS) && (status[1]==SUCCEEDED || ENDLESS==2) && (status[2]==SUCCEEDED || (ENDLESS==2 && !FREE))) }
