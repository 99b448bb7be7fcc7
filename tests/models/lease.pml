/* lease: one run from its claim to its end: claim, heartbeat, journal a step, complete, cancel, crash, freeze and thaw, reap.
   One atomic{} is one guarded statement of the store.  FENCE says what a write of a worker is guarded by.
   A run that was claimed too often stands still as BLOCKED: MAX_CLAIMS is here what MAX_CRASHES bounds there. */
#ifndef FENCE
#define FENCE 2      /* 0: the run's id alone  1: the name of the worker  2: the lease token */
#endif
#ifndef MAX_CLAIMS
#define MAX_CLAIMS 3
#endif
mtype = { QUEUED, RUNNING, SUCCEEDED, BLOCKED, CANCELLED };
mtype status = QUEUED;
byte leased_by = 0;   /* worker's name, 0 none */
byte lease_token = 0; /* a counter here, for what the store draws at random: a value that no other claim ever has */
bool lapsed = false;  /* the lease is past its end, by the database's clock */
byte claims = 0;
byte entries = 0;     /* rows of the one step in the journal */
byte entry_token = 0; /* the token that wrote the journal row */
byte accepted = 0;    /* accepted endings */
bool stale_write = false; /* a write by a claim that is not the current one was accepted */
bool cancel_requested = false;
byte live = 2;       /* workers not crashed for good */
#define AT_REST (status==SUCCEEDED||status==BLOCKED||status==CANCELLED)
#if FENCE==0
#define HELD(w,t) (status==RUNNING)
#elif FENCE==1
#define HELD(w,t) (status==RUNNING && leased_by==w)
#else
#define HELD(w,t) (status==RUNNING && lease_token==t)
#endif
proctype Worker(byte name) {
  byte my; bool crashed=false;
end_w:
  do
  :: atomic { status==QUEUED && claims<MAX_CLAIMS -> status=RUNNING; leased_by=name; lease_token++; my=lease_token; claims++; lapsed=false }
     /* step body: side effect, at-least-once.  The worker may stall here for any time (zombie). */
     if
     :: atomic { entries==0 -> skip }  /* not in journal: run it */
        if
        :: true -> skip
        :: true -> crashed=true
        fi;
        if
        :: crashed -> crashed=false; goto end_w   /* killed: nothing written; process restarts */
        :: else
        fi;
        atomic { if
          :: HELD(name,my) -> if :: entries==0 -> entries++; entry_token=my :: else -> skip fi;
             if :: lease_token!=my -> stale_write=true :: else fi
          :: else -> goto end_w   /* lost the lease: stop at once */
          fi }
     :: atomic { entries>0 -> skip }   /* replay from the journal */
     fi;
     if
     :: true -> atomic { if /* complete */
          :: HELD(name,my) -> status=SUCCEEDED; leased_by=0; accepted++;
             if :: lease_token!=my -> stale_write=true :: else fi
          :: else -> skip
          fi }
     :: true -> skip                      /* crash after the step, before completion */
     :: atomic { HELD(name,my) && !lapsed -> lapsed=false } /* heartbeat then crash */
     fi
  :: atomic { AT_REST -> break }
  :: atomic { status==QUEUED && claims>=MAX_CLAIMS -> status=BLOCKED; accepted++ }
  od
}
proctype Reaper() {
end_r:
  do
  :: atomic { status==RUNNING && !lapsed -> lapsed=true }             /* time passes */
  :: atomic { status==RUNNING && lapsed && claims<MAX_CLAIMS -> status=QUEUED; leased_by=0; lapsed=false }
  :: atomic { status==RUNNING && lapsed && claims>=MAX_CLAIMS -> status=BLOCKED; leased_by=0; accepted++ } /* it stands still until a person looks at it */
  :: atomic { AT_REST -> break }
  od
}
proctype Canceller() {
  if
  :: atomic { status==QUEUED || status==RUNNING -> status=CANCELLED; leased_by=0; accepted++ }
  :: true -> skip
  fi
}
init { atomic { 
#if FENCE==1
  run Worker(1); run Worker(1);  /* same name: restarted pod / second thread */
#else
  run Worker(1); run Worker(2);
#endif
  run Reaper(); run Canceller() } }
ltl one_outcome { [] (accepted<=1) }
ltl one_row { [] (entries<=1) }
ltl fenced { [] (!stale_write) }
ltl ends { <> AT_REST }
