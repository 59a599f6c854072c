/* NCCL's calls, on their way from torch to libnccl.so.2: each goes there first, with all that NCCL checks, counts and
 * connects; then its data and its end are ours, for no kernel of NCCL's runs.
 *
 * What a rank brings to a collective lies in the file $FAKE_NCCL_DIR/COMMUNICATOR/NUMBER.RANK, what it sends to another
 * in sFROM-TO.NUMBER. A collective is done once all ranks have brought theirs to that number, all with the same
 * operation, type, count, reduction and root; else it stays, as it (mostly) does on GPUs. Small all_reduces of unlike
 * counts end with wrong sums, as they do there over sockets (docs/measured/gpu.md): up to $FAKE_NCCL_SMALL bytes, by
 * itself as many as were seen to. Everything here is called with `state` held, but for the functions that NCCL has too.
 */

enum what { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, SEND, RECEIVE };
enum reduction { SUM, PRODUCT, MAXIMUM, MINIMUM, AVERAGE };
enum type { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, FLOAT8_A, FLOAT8_B };
enum { IN_PROGRESS = 7, EAGER = 4 << 20, GROUPED_STREAMS = 8, SMALL = 256 << 10 };

struct communicator {
    struct communicator *next;
    Any real; /* NULL once it is gone */
    char key[96];
    int rank, size, aborted, splits;
    u64 number, kept, *sent, *received; /* collectives so far, the oldest whose file is there, messages by peer */
};
struct call { int what, type, reduction, peer; size_t n; }; /* peer: or root */
struct part { struct part *next; struct communicator *of; struct call call; const char *from; char *to; u64 number; int brought, done; };

static struct communicator *communicators;
static __thread struct { Any stream; struct part *first, *last; } grouped[GROUPED_STREAMS];
static __thread int grouped_streams, depth;

static size_t width(int type) {
    static const unsigned char widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return type >= 0 && type <= FLOAT8_B ? widths[type] : 1;
}
static size_t bytes(const struct part *p) { return p->call.n * width(p->call.type); }

/* ---- the files ---- */

static const char *meeting_place(void) {
    const char *set = getenv("FAKE_NCCL_DIR");
    return set ? set : "/dev/shm/fake-nccl";
}
enum { PATH = 512 };
static const char *path_of(const struct part *p, int rank, u64 number, char out[PATH]) {
    int is_send = p->call.what == SEND, own = p->of->rank, other = p->call.peer;
    int used = snprintf(out, PATH, "%s/%s/", meeting_place(), p->of->key);
    char *rest = out + used;
    size_t room = PATH - (size_t)used;
    if (is_send || p->call.what == RECEIVE)
        snprintf(rest, room, "s%d-%d.%llu", is_send ? own : other, is_send ? other : own, number);
    else snprintf(rest, room, "%llu.%d", number, rank);
    return out;
}
static size_t bytes_brought(const struct part *p) {
    int is_root = p->of->rank == p->call.peer;
    switch (p->call.what) {
    case RECEIVE: return 0;
    case BROADCAST: return is_root ? bytes(p) : 0;
    case SCATTER: return is_root ? bytes(p) * (size_t)p->of->size : 0;
    case REDUCE_SCATTER: case ALL_TO_ALL: return bytes(p) * (size_t)p->of->size;
    default: return bytes(p);
    }
}
static void bring(const struct part *p) {
    char path[PATH], draft[PATH + 8];
    if (p->call.what == RECEIVE) return;
    snprintf(draft, sizeof draft, "%s.draft", path_of(p, p->of->rank, p->number, path));
    int file = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t at = 0, size = bytes_brought(p);
    ssize_t n = file < 0 ? -1 : write(file, &p->call, sizeof p->call);
    while (n > 0 && at < size) n = write(file, p->from + at, size - at), at += n > 0 ? (size_t)n : 0;
    if (n < 0 || rename(draft, path)) fprintf(stderr, "fake cuda: %s: %s\n", draft, strerror(errno));
    if (file >= 0) close(file);
}
/* What a rank has brought; NULL while it has not. With data: to be freed. */
static char *brought_by(const struct part *p, int rank, int with_data, struct call *call, size_t *size) {
    static char nothing[1];
    char path[PATH], *data = nothing;
    struct stat facts;
    int file = open(path_of(p, rank, p->number, path), O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    if (read(file, call, sizeof *call) != sizeof *call || fstat(file, &facts)) data = NULL;
    *size = data ? (size_t)facts.st_size - sizeof *call : 0;
    if (data && with_data) {
        size_t at = 0;
        ssize_t n = 1;
        data = malloc(*size + 1);
        while (n > 0 && at < *size) n = read(file, data + at, *size - at), at += n > 0 ? (size_t)n : 0;
    }
    close(file);
    return data;
}

/* ---- the result ---- */

static float of_bfloat16(unsigned short v) {
    unsigned bits = (unsigned)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static unsigned short to_bfloat16(float f) {
    unsigned bits;
    memcpy(&bits, &f, sizeof f);
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* to the nearest, ties to even */
}
#define REDUCED(a, b)                                                                                       \
    (reduction == PRODUCT ? (a) * (b) : reduction == MAXIMUM ? ((a) > (b) ? (a) : (b))                     \
                                      : reduction == MINIMUM ? ((a) < (b) ? (a) : (b)) : (a) + (b))
#define EACH(kind)                                                                                          \
    do {                                                                                                    \
        kind *a = (kind *)to;                                                                               \
        const kind *b = (const kind *)from;                                                                 \
        for (size_t i = 0; i < n; i++) a[i] = (kind)REDUCED(a[i], b[i]);                                    \
    } while (0)
static void reduce(char *to, const char *from, size_t n, int type, int reduction) {
    switch (type) {
    case INT8: EACH(signed char); break;
    case UINT8: EACH(unsigned char); break;
    case INT32: EACH(int); break;
    case UINT32: EACH(unsigned); break;
    case INT64: EACH(long long); break;
    case UINT64: EACH(u64); break;
    case FLOAT16: EACH(_Float16); break;
    case FLOAT32: EACH(float); break;
    case FLOAT64: EACH(double); break;
    case BFLOAT16: {
        unsigned short *a = (unsigned short *)to;
        const unsigned short *b = (const unsigned short *)from;
        for (size_t i = 0; i < n; i++) a[i] = to_bfloat16(REDUCED(of_bfloat16(a[i]), of_bfloat16(b[i])));
        break;
    }
    default: break; /* of 8 bits: those of the first rank */
    }
}
static void divide(char *to, size_t n, int type, int by) {
    for (size_t i = 0; i < n; i++) {
        if (type == FLOAT16) ((_Float16 *)to)[i] /= (_Float16)by;
        if (type == FLOAT32) ((float *)to)[i] /= (float)by;
        if (type == FLOAT64) ((double *)to)[i] /= by;
        if (type == BFLOAT16) ((unsigned short *)to)[i] = to_bfloat16(of_bfloat16(((unsigned short *)to)[i]) / (float)by);
    }
}
/* One rank's share of the result; ranks come in order. */
static void take(const struct part *p, int rank, const char *data) {
    size_t size = bytes(p), own = (size_t)p->of->rank * size;
    int is_root = p->of->rank == p->call.peer;
    switch (p->call.what) {
    case REDUCE_SCATTER: data += own; /* fall through */
    case ALL_REDUCE: case REDUCE:
        if (p->call.what == REDUCE && !is_root) break;
        if (rank) reduce(p->to, data, p->call.n, p->call.type, p->call.reduction);
        else memcpy(p->to, data, size);
        if (rank == p->of->size - 1 && p->call.reduction == AVERAGE) divide(p->to, p->call.n, p->call.type, p->of->size);
        break;
    case BROADCAST: if (rank == p->call.peer) memcpy(p->to, data, size); break;
    case SCATTER: if (rank == p->call.peer) memcpy(p->to, data + own, size); break;
    case GATHER: if (!is_root) break; /* fall through */
    case ALL_GATHER: memcpy(p->to + (size_t)rank * size, data, size); break;
    case ALL_TO_ALL: memcpy(p->to + (size_t)rank * size, data + own, size); break;
    default: break;
    }
}

/* ---- whether it is done ---- */

/* What a rank has brought may go once all have taken it. That they have come to the next number does not tell it: torch
 * gives calls with async_op to a stream of their own, so that one that was called later may be done earlier. */
static const char *mark_of(const struct part *p, int rank, u64 number, char out[PATH]) {
    snprintf(out, PATH, "%s/%s/%llu.%d.taken", meeting_place(), p->of->key, number, rank);
    return out;
}
static void let_go(const struct part *p) {
    struct communicator *c = p->of;
    char path[PATH];
    int file = open(mark_of(p, c->rank, p->number, path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
    for (; c->kept < c->number; c->kept++) {
        for (int rank = 0; rank < c->size; rank++)
            if (access(mark_of(p, rank, c->kept, path), F_OK)) return;
        unlink(path_of(p, c->rank, c->kept, path));
    }
}

static int sent(const struct part *p) { /* a small message lies in the buffers, a large one waits to be read */
    char path[PATH];
    return bytes(p) <= EAGER || access(path_of(p, 0, p->number, path), F_OK);
}
static int received(const struct part *p) {
    char path[PATH];
    struct call call;
    size_t size;
    char *data = brought_by(p, 0, 1, &call, &size);
    int fits = data && size == bytes(p);
    if (fits) {
        memcpy(p->to, data, size);
        unlink(path_of(p, 0, p->number, path));
    }
    free(data);
    return fits;
}
/* Whether what another rank has brought goes with ours; of two small sums the elements that both have are summed. */
static int goes_with(const struct part *p, struct call other, size_t size) {
    const char *set = getenv("FAKE_NCCL_SMALL");
    size_t small = set ? strtoul(set, NULL, 10) : SMALL;
    if (p->call.what == ALL_REDUCE && bytes(p) <= small && size <= small) other.n = p->call.n;
    return !memcmp(&other, &p->call, sizeof other);
}
static int met(const struct part *p) {
    struct call call;
    size_t size;
    for (int rank = 0; rank < p->of->size; rank++)
        if (!brought_by(p, rank, 0, &call, &size) || !goes_with(p, call, size)) return 0;
    for (int rank = 0; rank < p->of->size; rank++) {
        char *data = brought_by(p, rank, 1, &call, &size);
        struct part shared = *p;
        if (call.n < p->call.n) shared.call.n = call.n;
        if (data) take(&shared, rank, data);
        free(data);
    }
    let_go(p);
    return 1;
}
static int part_is_done(struct part *p) {
    if (p->of->aborted) return 1; /* its kernel sees the flag and ends */
    if (!p->brought) bring(p), p->brought = 1;
    return p->call.what == SEND ? sent(p) : p->call.what == RECEIVE ? received(p) : met(p);
}
/* The parts of one kernel: a call, or the calls of a group. */
static int all_parts_are_done(struct operation *o) {
    int all = 1;
    for (struct part *p = o->from; p; p = p->next) all &= p->done = p->done || part_is_done(p);
    for (struct part *p = all ? o->from : NULL, *next; p; p = next) next = p->next, free(p);
    return all;
}

/* ---- communicators ---- */

static void *real(const char *name) {
    void *library = dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_NOW), *found = NULL;
    take_over_nccl();
    if (library) found = dlsym(library, name);
    if (!found) fprintf(stderr, "fake cuda: libnccl.so.2 has no %s\n", name), abort();
    return found;
}
#define REAL(name, ...) ((int (*)(__VA_ARGS__))real(#name))
typedef struct { char bytes[128]; } Id;

static struct communicator *known(Any real_one) {
    struct communicator *c = communicators;
    while (c && c->real != real_one) c = c->next;
    return c;
}
static void add_communicator(Any real_one, const char *key, int rank, int size) {
    struct communicator *c = calloc(1, sizeof *c);
    char path[PATH];
    c->real = real_one, c->rank = rank, c->size = size;
    snprintf(c->key, sizeof c->key, "%s", key);
    c->sent = calloc((size_t)size, sizeof *c->sent), c->received = calloc((size_t)size, sizeof *c->received);
    snprintf(path, sizeof path, "%s/%s", meeting_place(), key);
    mkdir(meeting_place(), 0777);
    mkdir(path, 0777);
    pthread_mutex_lock(&state);
    c->next = communicators, communicators = c;
    pthread_mutex_unlock(&state);
}
static int added(int error, Any *out, const Id *id, int rank, int size) {
    u64 hash = 14695981039346656037ull; /* FNV-1a: a name for the meeting place that all ranks come to */
    char key[24];
    if (error != SUCCESS && error != IN_PROGRESS) return error;
    for (size_t i = 0; i < sizeof id->bytes; i++) hash = (hash ^ (unsigned char)id->bytes[i]) * 1099511628211ull;
    snprintf(key, sizeof key, "%016llx", hash);
    add_communicator(*out, key, rank, size);
    return error;
}
int ncclCommInitRank(Any *out, int size, Id id, int rank) {
    return added(REAL(ncclCommInitRank, Any *, int, Id, int)(out, size, id, rank), out, &id, rank, size);
}
int ncclCommInitRankConfig(Any *out, int size, Id id, int rank, Any config) {
    return added(REAL(ncclCommInitRankConfig, Any *, int, Id, int, Any)(out, size, id, rank, config), out, &id, rank, size);
}
int ncclCommInitRankScalable(Any *out, int size, int rank, int n, Id *ids, Any config) {
    int error = REAL(ncclCommInitRankScalable, Any *, int, int, int, Id *, Any)(out, size, rank, n, ids, config);
    return added(error, out, ids, rank, size);
}
int ncclCommSplit(Any parent, int color, int order, Any *out, Any config) {
    struct communicator *c = known(parent);
    char key[96];
    int rank = 0, size = 0, progress = 0;
    int error = REAL(ncclCommSplit, Any, int, int, Any *, Any)(parent, color, order, out, config);
    if ((error != SUCCESS && error != IN_PROGRESS) || !c) return error;
    snprintf(key, sizeof key, "%.60s-%d-%d", c->key, c->splits++, color);
    if (!*out) return error; /* of no color */
    do usleep(1000), REAL(ncclCommGetAsyncError, Any, int *)(*out, &progress);
    while (progress == IN_PROGRESS); /* before that it has no rank */
    REAL(ncclCommUserRank, Any, int *)(*out, &rank);
    REAL(ncclCommCount, Any, int *)(*out, &size);
    add_communicator(*out, key, rank, size);
    return error;
}
static int has_nothing_to_do(void *communicator) {
    push();
    if (((struct communicator *)communicator)->aborted) return 1;
    for (struct stream *stream = streams; stream; stream = stream->next)
        for (struct operation *o = stream->head; o; o = o->next)
            for (struct part *p = o->try == all_parts_are_done ? o->from : NULL; p; p = p->next)
                if (p->of == communicator) return 0;
    return 1;
}
int ncclCommAbort(Any real_one) {
    struct communicator *c = known(real_one);
    pthread_mutex_lock(&state);
    if (c) c->aborted = 1, c->real = NULL, push();
    pthread_mutex_unlock(&state);
    return REAL(ncclCommAbort, Any)(real_one);
}
int ncclCommFinalize(Any real_one) {
    struct communicator *c = known(real_one);
    if (c) wait_until(has_nothing_to_do, c);
    return REAL(ncclCommFinalize, Any)(real_one);
}
int ncclCommDestroy(Any real_one) {
    struct communicator *c = known(real_one);
    if (c) wait_until(has_nothing_to_do, c), c->real = NULL;
    return REAL(ncclCommDestroy, Any)(real_one);
}

/* ---- groups: what is called in one goes to its streams at its end, one operation each ---- */

static void give_to_streams(int succeeded) {
    for (int i = 0; i < grouped_streams && succeeded; i++)
        add_to(stream_of(grouped[i].stream), (struct operation){.try = all_parts_are_done, .from = grouped[i].first});
    grouped_streams = 0;
}
int ncclGroupStart(void) {
    depth++;
    return REAL(ncclGroupStart, void)();
}
int ncclGroupEnd(void) {
    int error = REAL(ncclGroupEnd, void)();
    if (depth > 0 && --depth == 0) give_to_streams(error == SUCCESS || error == IN_PROGRESS);
    return error;
}
static int called(int error, Any real_one, struct call call, const void *from, void *to, Any stream) {
    struct communicator *c = known(real_one);
    if ((error != SUCCESS && error != IN_PROGRESS) || !c) return error;
    u64 *count = call.what == SEND ? &c->sent[call.peer] : call.what == RECEIVE ? &c->received[call.peer] : &c->number;
    struct part *p = calloc(1, sizeof *p);
    *p = (struct part){.of = c, .call = call, .from = from, .to = to, .number = (*count)++};
    int i = 0;
    while (i < grouped_streams && grouped[i].stream != stream) i++;
    if (i == GROUPED_STREAMS) fprintf(stderr, "fake cuda: a group over more than %d streams\n", i), abort();
    if (i == grouped_streams) grouped[grouped_streams++].stream = stream, grouped[i].first = p;
    else grouped[i].last->next = p;
    grouped[i].last = p;
    if (!depth) give_to_streams(1);
    return error;
}

/* Each as NCCL declares it: buffers, count, type, then what it needs, communicator and stream. */
#define CALL(what, reduction, peer) (struct call){what, type, reduction, peer, n}
int ncclAllReduce(const void *a, void *b, size_t n, int type, int op, Any c, Any s) {
    int error = REAL(ncclAllReduce, const void *, void *, size_t, int, int, Any, Any)(a, b, n, type, op, c, s);
    return called(error, c, CALL(ALL_REDUCE, op, 0), a, b, s);
}
int ncclReduce(const void *a, void *b, size_t n, int type, int op, int root, Any c, Any s) {
    int error = REAL(ncclReduce, const void *, void *, size_t, int, int, int, Any, Any)(a, b, n, type, op, root, c, s);
    return called(error, c, CALL(REDUCE, op, root), a, b, s);
}
int ncclBroadcast(const void *a, void *b, size_t n, int type, int root, Any c, Any s) {
    int error = REAL(ncclBroadcast, const void *, void *, size_t, int, int, Any, Any)(a, b, n, type, root, c, s);
    return called(error, c, CALL(BROADCAST, 0, root), a, b, s);
}
int ncclBcast(void *b, size_t n, int type, int root, Any c, Any s) {
    int error = REAL(ncclBcast, void *, size_t, int, int, Any, Any)(b, n, type, root, c, s);
    return called(error, c, CALL(BROADCAST, 0, root), b, b, s);
}
int ncclAllGather(const void *a, void *b, size_t n, int type, Any c, Any s) {
    int error = REAL(ncclAllGather, const void *, void *, size_t, int, Any, Any)(a, b, n, type, c, s);
    return called(error, c, CALL(ALL_GATHER, 0, 0), a, b, s);
}
int ncclReduceScatter(const void *a, void *b, size_t n, int type, int op, Any c, Any s) {
    int error = REAL(ncclReduceScatter, const void *, void *, size_t, int, int, Any, Any)(a, b, n, type, op, c, s);
    return called(error, c, CALL(REDUCE_SCATTER, op, 0), a, b, s);
}
int ncclAlltoAll(const void *a, void *b, size_t n, int type, Any c, Any s) {
    int error = REAL(ncclAlltoAll, const void *, void *, size_t, int, Any, Any)(a, b, n, type, c, s);
    return called(error, c, CALL(ALL_TO_ALL, 0, 0), a, b, s);
}
int ncclGather(const void *a, void *b, size_t n, int type, int root, Any c, Any s) {
    int error = REAL(ncclGather, const void *, void *, size_t, int, int, Any, Any)(a, b, n, type, root, c, s);
    return called(error, c, CALL(GATHER, 0, root), a, b, s);
}
int ncclScatter(const void *a, void *b, size_t n, int type, int root, Any c, Any s) {
    int error = REAL(ncclScatter, const void *, void *, size_t, int, int, Any, Any)(a, b, n, type, root, c, s);
    return called(error, c, CALL(SCATTER, 0, root), a, b, s);
}
int ncclSend(const void *a, size_t n, int type, int peer, Any c, Any s) {
    int error = REAL(ncclSend, const void *, size_t, int, int, Any, Any)(a, n, type, peer, c, s);
    return called(error, c, CALL(SEND, 0, peer), a, NULL, s);
}
int ncclRecv(void *b, size_t n, int type, int peer, Any c, Any s) {
    int error = REAL(ncclRecv, void *, size_t, int, int, Any, Any)(b, n, type, peer, c, s);
    return called(error, c, CALL(RECEIVE, 0, peer), NULL, b, s);
}
