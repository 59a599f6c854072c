/* The runtime that libnccl.so.2 carries in itself: the first bytes of its cuda* functions become jumps to those here.
 *
 * Its wheel keeps the names in .symtab. What is not here says so and returns cudaErrorNotSupported, and NCCL goes on
 * without (NVLS, graphs, ...). NCCL's own code stays as it is.
 */

/* FAKE_CUDA_FAULT=cuMemCreate=2,cudaMalloc=2: these return that error, whatever they are asked. */
static void *faulty(const char *name) {
    const char *at = getenv("FAKE_CUDA_FAULT");
    size_t length = strlen(name);
    for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, length) && at[length] == '=') {
            unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            int error = atoi(at + length + 1);
            memcpy(code, "\xb8", 1);            /* mov $error, %eax */
            memcpy(code + 1, &error, sizeof error);
            memcpy(code + 5, "\xc3", 1);        /* ret */
            return code;
        }
    return NULL;
}
static void *own_function(const char *name) {
    char base[128];
    size_t length = strlen(name);
    void *found = faulty(name);
    if (!found) found = dlsym(self, name);
    if (found || length < 5 || length >= sizeof base || strcmp(name + length - 5, "_ptsz")) return found;
    memcpy(base, name, length - 5), base[length - 5] = 0; /* of the stream of each thread */
    return dlsym(self, base);
}
static int not_there(const char *name) {
    say("not there:", name);
    return NOT_SUPPORTED;
}

static unsigned char *put(unsigned char *at, const char *code, size_t length, const void *address) {
    memcpy(at, code, length);
    memcpy(at + length, &address, sizeof address);
    return at + length + sizeof address;
}
static void jump(unsigned char *at, const void *to) {
    at = put(at, "\x48\xb8", 2, to);   /* movabs $to, %rax */
    memcpy(at, "\xff\xe0", 2);         /* jmp *%rax */
}
enum { ROOM = 32 }; /* bytes for one that says it is not there */

static void redirect(const char *name, unsigned char *at, unsigned char **room) {
    void *to = own_function(name);
    if (!to) { /* with its name as the argument */
        jump(put(*room, "\x48\xbf", 2, strdup(name)), (void *)not_there); /* movabs $name, %rdi */
        to = *room, *room += ROOM;
    }
    jump(at, to);
}

static void take_over(const char *file, uintptr_t base) {
    int descriptor = open(file, O_RDONLY | O_CLOEXEC);
    struct stat facts;
    if (descriptor < 0 || fstat(descriptor, &facts)) return;
    char *image = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    close(descriptor);
    if (image == MAP_FAILED) return;
    const ElfW(Ehdr) *header = (void *)image;
    const ElfW(Shdr) *sections = (void *)(image + header->e_shoff), *table = NULL;
    for (int i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB) table = &sections[i];
    if (!table) {
        fprintf(stderr, "fake cuda: %s is stripped, and cannot be taken over\n", file);
        munmap(image, (size_t)facts.st_size);
        return;
    }
    const char *names = image + sections[table->sh_link].sh_offset;
    const ElfW(Sym) *symbols = (void *)(image + table->sh_offset);
    size_t n = table->sh_size / sizeof *symbols;
    unsigned char *room = mmap(NULL, ROOM * 2048, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t first = UINTPTR_MAX, last = 0;
    for (int writes = 0; writes < 2; writes++) { /* which pages, then their bytes */
        for (size_t i = 0; i < n; i++) {
            const char *name = names + symbols[i].st_name;
            if (ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC || strncmp(name, "cuda", 4)) continue;
            if (name[4] < 'A' || name[4] > 'Z') continue;
            uintptr_t at = base + symbols[i].st_value;
            if (writes) redirect(name, (unsigned char *)at, &room);
            if (at < first) first = at;
            if (at > last) last = at;
        }
        uintptr_t page = first & ~4095ul;
        mprotect((void *)page, last + 64 - page, PROT_READ | PROT_EXEC | (writes ? 0 : PROT_WRITE));
    }
    munmap(image, (size_t)facts.st_size);
}

static int look_at(struct dl_phdr_info *info, size_t size, void *data) {
    static uintptr_t done;
    const char *name = strrchr(info->dlpi_name, '/');
    (void)size, (void)data;
    if (name && !strncmp(name, "/libnccl.so", 11) && done != info->dlpi_addr) {
        done = info->dlpi_addr;
        take_over(info->dlpi_name, info->dlpi_addr);
    }
    return 0;
}
static void take_over_nccl(void) { dl_iterate_phdr(look_at, NULL); }
void fake_cuda_take_over_nccl(void) { take_over_nccl(); } /* for a program that has loaded NCCL by itself */

/* ---- the driver's functions, by name ---- */

static int driver_has_not(void) { return NOT_SUPPORTED; }
static int entry_point(const char *name, void **out, int *found, void *caller) {
    Dl_info from = {0};
    *out = own_function(name);
    if (!*out) say("the driver has no", name);
    /* torch wants all the functions it knows before it uses one; NCCL goes by which there are. */
    if (!*out && dladdr(caller, &from) && from.dli_fname && (strstr(from.dli_fname, "torch") || strstr(from.dli_fname, "c10")))
        *out = (void *)driver_has_not;
    if (found) *found = *out ? 0 : 1;
    return SUCCESS;
}
int cudaGetDriverEntryPoint(const char *name, void **out, u64 flags, int *found) {
    (void)flags;
    return entry_point(name, out, found, __builtin_return_address(0));
}
int cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, u64 flags, int *found) {
    (void)version, (void)flags;
    return entry_point(name, out, found, __builtin_return_address(0));
}
