/* Streams are queues of operations, in whose order they are done; one that cannot be done yet holds up what is behind it.
 *
 * Whoever asks after a stream or adds to one pushes all of them on; a thread does while something is left. As on a GPU a
 * stream takes about a thousand operations, then whoever adds another one waits.
 */

enum { MOST_DEVICES_HERE = 64, LAUNCH_QUEUE = 1024 };
struct event { u64 recorded, done; struct timespec when; };
struct operation {
    struct operation *next;
    int (*try)(struct operation *); /* 1 when it is done; with `state` held */
    void *to, *from;
    size_t size;
    int value;
    struct event *event;
    u64 number;
    void (*call)(void *);
};
struct stream { struct operation *head, *tail; struct stream *next; int device, priority, calling, length; };

static struct stream default_streams[MOST_DEVICES_HERE], *streams;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER, wanted = PTHREAD_COND_INITIALIZER;

static struct stream *default_stream(void) { return &default_streams[current % MOST_DEVICES_HERE]; }
static struct stream *stream_of(Any stream) {
    int is_special = (uintptr_t)stream <= 2; /* the legacy default stream, and that of each thread */
    return is_special ? default_stream() : stream;
}

/* ---- pushing on ---- */

static int push_on(struct stream *stream) {
    int any = 0;
    while (stream->head && !stream->calling) {
        struct operation *first = stream->head;
        if (first->call) { /* code of others, that may call us */
            stream->calling = 1;
            pthread_mutex_unlock(&state);
            first->call(first->to);
            pthread_mutex_lock(&state);
            stream->calling = 0;
        } else if (!first->try(first)) break;
        stream->head = first->next, stream->length--;
        if (!stream->head) stream->tail = NULL;
        free(first);
        any = 1;
    }
    return any;
}
/* All streams, as far as they get; 1 when something is left. */
static int push_all_on(int *got_on) {
    int any, left;
    *got_on = 0;
    do {
        any = left = 0;
        for (int i = 0; i < MOST_DEVICES_HERE; i++)
            any |= push_on(&default_streams[i]), left |= default_streams[i].head != NULL;
        for (struct stream *stream = streams; stream; stream = stream->next)
            any |= push_on(stream), left |= stream->head != NULL;
        if (any) pthread_cond_broadcast(&moved), *got_on = 1;
    } while (any && left);
    return left;
}
static int push(void) {
    int got_on;
    return push_all_on(&got_on);
}
static void *work(void *nothing) {
    unsigned idle = 0;
    int got_on;
    pthread_setname_np(pthread_self(), "cuda-EvtHandlr"); /* a real one has a thread of this name */
    pthread_mutex_lock(&state);
    for (;;) {
        if (!push_all_on(&got_on)) {
            pthread_cond_wait(&wanted, &state);
            idle = 0;
            continue;
        }
        idle = got_on ? 0 : idle + 1;
        pthread_mutex_unlock(&state);
        usleep(idle < 200 ? 1000 : 20000);
        pthread_mutex_lock(&state);
    }
    return nothing;
}
static void start_worker(void) {
    pthread_t thread;
    if (!pthread_create(&thread, NULL, work, NULL)) pthread_detach(thread);
}

/* ---- waiting: the driver does it, with `state` held ---- */

static int is_empty(void *stream) { push(); return ((struct stream *)stream)->head == NULL; }
static int has_room(void *stream) { push(); return ((struct stream *)stream)->length < LAUNCH_QUEUE; }
static int is_done(void *event) { push(); return ((struct event *)event)->done >= ((struct event *)event)->recorded; }

static int wait_until(int (*so)(void *), void *of) {
    READY;
    pthread_mutex_lock(&state);
    if (!so(of)) wait_in_driver(&state, &moved, so, of);
    pthread_mutex_unlock(&state);
    return SUCCESS;
}
static int ask(int (*so)(void *), void *of) {
    pthread_mutex_lock(&state);
    int answer = so(of);
    pthread_mutex_unlock(&state);
    return answer ? SUCCESS : NOT_READY;
}

static void add_to(struct stream *stream, struct operation model) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct operation *new = malloc(sizeof *new);
    *new = model;
    new->next = NULL;
    wait_until(has_room, stream);
    pthread_mutex_lock(&state);
    if (stream->tail) stream->tail->next = new;
    else stream->head = new;
    stream->tail = new, stream->length++;
    int left = push();
    if (left) pthread_cond_signal(&wanted);
    pthread_mutex_unlock(&state);
    if (left) pthread_once(&once, start_worker);
}

/* ---- streams ---- */

int cudaStreamCreateWithPriority(Any *out, unsigned flags, int priority) {
    (void)flags;
    READY;
    struct stream *stream = calloc(1, sizeof *stream);
    stream->device = current, stream->priority = priority;
    pthread_mutex_lock(&state);
    stream->next = streams, streams = stream;
    pthread_mutex_unlock(&state);
    *out = stream;
    return SUCCESS;
}
int cudaStreamCreateWithFlags(Any *out, unsigned flags) { return cudaStreamCreateWithPriority(out, flags, 0); }
int cudaStreamCreate(Any *out) { return cudaStreamCreateWithPriority(out, 0, 0); }
int cudaStreamDestroy(Any stream) { (void)stream; return SUCCESS; } /* what is on it is still done */
int cudaStreamSynchronize(Any stream) { return wait_until(is_empty, stream_of(stream)); }
int cudaStreamQuery(Any stream) { return ask(is_empty, stream_of(stream)); }
int cudaStreamGetPriority(Any stream, int *out) { *out = stream_of(stream)->priority; return SUCCESS; }
int cudaStreamGetId(Any stream, u64 *out) { *out = (u64)(uintptr_t)stream; return SUCCESS; }
int cudaDeviceSynchronize(void) {
    READY;
    wait_until(is_empty, default_stream());
    for (struct stream *stream = streams; stream; stream = stream->next)
        if (stream->device == current) wait_until(is_empty, stream);
    return SUCCESS;
}

/* Nothing is ever captured into a graph. */
int cudaStreamIsCapturing(Any stream, int *out) { (void)stream; *out = 0; return SUCCESS; }
int cudaStreamGetCaptureInfo(Any stream, int *out) { (void)stream; *out = 0; return SUCCESS; }
int cudaStreamGetCaptureInfo_v2(Any stream, int *out) { return cudaStreamGetCaptureInfo(stream, out); }
int cudaStreamGetCaptureInfo_v3(Any stream, int *out) { return cudaStreamGetCaptureInfo(stream, out); }
int cudaThreadExchangeStreamCaptureMode(int *mode) { (void)mode; return SUCCESS; }

/* ---- events: an event that is recorded often is at the number it was last given ---- */

static int record(struct operation *o) {
    if (o->number > o->event->done) o->event->done = o->number;
    clock_gettime(CLOCK_MONOTONIC, &o->event->when);
    return 1;
}
static int await(struct operation *o) { return o->event->done >= o->number; }

int cudaEventCreateWithFlags(Any *out, unsigned flags) {
    (void)flags;
    *out = calloc(1, sizeof(struct event));
    return ready();
}
int cudaEventCreate(Any *out) { return cudaEventCreateWithFlags(out, 0); }
int cudaEventDestroy(Any event) { (void)event; return SUCCESS; } /* kept: what is on a stream may still name it */
int cudaEventRecord(Any event, Any stream) {
    struct event *e = event;
    u64 number = __atomic_add_fetch(&e->recorded, 1, __ATOMIC_SEQ_CST);
    add_to(stream_of(stream), (struct operation){.try = record, .event = e, .number = number});
    return SUCCESS;
}
int cudaEventRecordWithFlags(Any event, Any stream, unsigned flags) {
    (void)flags;
    return cudaEventRecord(event, stream);
}
int cudaStreamWaitEvent(Any stream, Any event, unsigned flags) {
    struct event *e = event;
    (void)flags;
    add_to(stream_of(stream), (struct operation){.try = await, .event = e, .number = e->recorded});
    return SUCCESS;
}
int cudaEventQuery(Any event) { return ask(is_done, event); }
int cudaEventSynchronize(Any event) { return wait_until(is_done, event); }
int cudaEventElapsedTime(float *out, Any first, Any last) {
    struct timespec a = ((struct event *)first)->when, b = ((struct event *)last)->when;
    if (cudaEventQuery(first) || cudaEventQuery(last)) return NOT_READY;
    *out = (float)((double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
    return SUCCESS;
}

/* ---- calls of the host in a stream ---- */

int cudaLaunchHostFunc(Any stream, void (*call)(void *), void *data) {
    add_to(stream_of(stream), (struct operation){.call = call, .to = data});
    return SUCCESS;
}
struct callback { void (*call)(Any, int, void *); Any stream; void *data; };
static void call_back(void *given) {
    struct callback *c = given;
    c->call(c->stream, SUCCESS, c->data);
    free(c);
}
int cudaStreamAddCallback(Any stream, void (*call)(Any, int, void *), void *data, unsigned flags) {
    struct callback *c = malloc(sizeof *c);
    (void)flags;
    *c = (struct callback){call, stream, data};
    return cudaLaunchHostFunc(stream, call_back, c);
}

/* ---- copies, in their turn; pageable memory of the host is read at once, and waited for when written ---- */

static int copy_now(struct operation *o) { memmove(o->to, o->from, o->size); return 1; }
static int copy_and_free(struct operation *o) { memcpy(o->to, o->from, o->size); free(o->from); return 1; }
static int set_now(struct operation *o) { memset(o->to, o->value, o->size); return 1; }
static int is_pageable(const void *address) { return !on_device(address) && !is_pinned(address); }

static int copy(void *to, const void *from, size_t size, struct stream *stream, int waits) {
    struct operation o = {.try = copy_now, .to = to, .from = (void *)from, .size = size};
    if (is_pageable(from)) {
        o.try = copy_and_free, o.from = malloc(size ? size : 1);
        memcpy(o.from, from, size);
    }
    add_to(stream, o);
    return waits || is_pageable(to) ? wait_until(is_empty, stream) : SUCCESS;
}
int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    (void)kind;
    return copy(to, from, size, default_stream(), 1);
}
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, Any stream) {
    (void)kind;
    return copy(to, from, size, stream_of(stream), 0);
}
int cudaMemcpyPeerAsync(void *to, int one, const void *from, int other, size_t size, Any stream) {
    (void)one, (void)other;
    return copy(to, from, size, stream_of(stream), 0);
}
int cudaMemcpy2DAsync(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width, size_t height,
                      int kind, Any stream) {
    for (size_t row = 0; row < height; row++)
        cudaMemcpyAsync(to + row * to_pitch, from + row * from_pitch, width, kind, stream);
    return SUCCESS;
}
int cudaMemsetAsync(void *to, int value, size_t size, Any stream) {
    add_to(stream_of(stream), (struct operation){.try = set_now, .to = to, .value = value, .size = size});
    return SUCCESS;
}
int cudaMemset(void *to, int value, size_t size) { return cudaMemsetAsync(to, value, size, NULL); }

int cuStreamWriteValue32(Any stream, unsigned *to, unsigned value) { (void)stream; *to = value; return SUCCESS; }
int cuStreamWriteValue64(Any stream, u64 *to, u64 value) { (void)stream; *to = value; return SUCCESS; }
int cuStreamWaitValue32(void) { return SUCCESS; }
int cuStreamWaitValue64(void) { return SUCCESS; }
int cuStreamBatchMemOp(void) { return SUCCESS; }
