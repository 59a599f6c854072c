"""NCCL's variables for logging, files, plugins, the inside of a machine and algorithms; see table_fabric.py."""

ROWS = """
# debug
NCCL_DEBUG 2.3.5 - text - how much NCCL logs: VERSION, WARN, INFO or TRACE
NCCL_DEBUG_FILE 2.3.5 - text - file that the log goes to; %h is the host name, %p the process id
NCCL_DEBUG_LEVELS 2.32 - text - levels of the log beside NCCL_DEBUG's
NCCL_DEBUG_SUBSYS 2.3.5 - text - which parts of NCCL log at INFO
NCCL_DEBUG_TIMESTAMP_FORMAT 2.26.2 - text - form of the time at the beginning of a log line
NCCL_DEBUG_TIMESTAMP_LEVELS 2.26.2 - text - which levels of the log carry a time
NCCL_WARN_ENABLE_DEBUG_INFO 2.19.4 - text - logs at INFO after the first warning
NCCL_CHECK_POINTERS 2.3.5 - integer 0 checks the pointers of every call; NCCL_CHECK_MODE follows it
NCCL_CHECK_MODE 2.29.7 - text - how strictly arguments of calls are checked
NCCL_CHECKS_DISABLE 2.0.0 2.2.13 integer auto turned argument checks off
NCCL_SET_THREAD_NAME 2.12.7 - text - names NCCL's threads, for debuggers and top
NCCL_PARAM_DUMP_ALL 2.30.3 - text - writes all parameters with their values at the start
NCCL_NO_CACHE 2.29.7 - text - parameters that are read anew at every use
NCCL_PROXY_DUMP_SIGNAL 2.14.3 - integer -1 signal on which the proxy thread writes its state
NCCL_RMA_PROXY_DUMP_SIGNAL 2.29.2 - integer -1 signal on which the RMA proxy writes its state
NCCL_PROXY_PROFILE 2.12.7 2.22.3 text - file for a profile of the proxy thread
NCCL_REPORT_CONNECT_PROGRESS 2.19.4 - integer 0 logs how far connecting has come
NCCL_RAS_ENABLE 2.24.3 - integer 1 the service that answers for a running or hanging job (ncclras)
NCCL_RAS_ADDR 2.24.3 - text - address at which that service listens
NCCL_RAS_TIMEOUT_FACTOR 2.24.3 - integer 1 multiplies the timeouts of that service
NCCL_NVTX_DISABLE 2.28.3 - integer 0 turns off the ranges that NVIDIA's profilers show
NCCL_RUN_DIAGNOSTICS 2.31 - text - diagnostics of the machine at the start
NCCL_RUN_RAS_DIAGNOSTICS 2.31 - text - diagnostics by the RAS service
NCCL_PROGRESS_COUNTERS 2.32 - text - counts how far each collective is
NCCL_PROGRESS_COUNTER_MONITOR_POLL_MS 2.32 - text - how often those are looked at, in milliseconds
NCCL_PROGRESS_COUNTER_MONITOR_STALE_MS 2.32 - text - from when they stand still, in milliseconds
NCCL_PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC 2.32 - text - how often that is said, in seconds
NCCL_DIAGNOSTICS_IB_BW_TIMEOUT 2.32 - text - how long the diagnostics measure InfiniBand
NCCL_DIAGNOSTICS_ECC_THRESHOLD 2.31 - text - number of ECC errors that the diagnostics allow
NCCL_ENABLE_VERSION_CHECK 2.29.2 - integer 1 compares NCCL's version over all ranks
# files and plugins
NCCL_CONF_FILE 2.23.4 - text - file of settings that takes the place of ~/.nccl.conf
NCCL_ENV_PLUGIN 2.28.7 - text - plugin that gives NCCL its settings
NCCL_NET_PLUGIN 2.11.4 - text - network plugin: a name, a path or "none"
NCCL_NET_PLUGIN_REF_COUNT 2.26.2 - integer 1,2.28.3:0 closes the network plugin when its last communicator ends
NCCL_TUNER_PLUGIN 2.19.1 - text - plugin that chooses algorithm and protocol
NCCL_PROFILER_PLUGIN 2.23.4 - text - plugin that is told of every operation
NCCL_GIN_PLUGIN 2.29.7 - text - plugin for networking from inside kernels
NCCL_GIN_PLUGIN_REF_COUNT 2.29.7 - integer 0 closes that plugin when its last communicator ends
NCCL_RMA_IB_WR_BATCHSIZE 2.32 - text - work requests that one-sided operations post at once
NCCL_RMA_PLUGIN 2.30.7 - text - plugin for one-sided operations
NCCL_RMA_PLUGIN_REF_COUNT 2.30.7 - integer 0 closes that plugin when its last communicator ends
NCCL_IBVERBS_LIB 2.30.3 - text - path of libibverbs to load
NCCL_TOPO_FILE 2.6.4 - text - XML file that describes the machine in place of what NCCL finds
NCCL_TOPO_DUMP_FILE 2.6.4 - text - file to which the topology is written
NCCL_TOPO_DUMP_FILE_RANK 2.6.4 - integer 0 rank that writes it
NCCL_GRAPH_FILE 2.6.4 - text - XML file of rings and trees to use
NCCL_GRAPH_DUMP_FILE 2.6.4 - text - file to which rings and trees are written
NCCL_GRAPH_DUMP_FILE_RANK 2.6.4 - integer 0 rank that writes it
NCCL_GRAPH 2.5.6 2.5.7 text - file of rings and trees
NCCL_CUDA_PATH 2.13.4 2.20.5 text - folder of the CUDA toolkit
# inside a machine
NCCL_P2P_DISABLE 2.3.5 - integer auto keeps GPUs from reading each other's memory
NCCL_P2P_LEVEL 2.3.5 - text - how near GPUs must be for that: LOC, NVL, PIX, PXB, PHB or SYS
NCCL_P2P_DIRECT_DISABLE 2.12.12 - integer 0 keeps ranks of one process from using pointers directly
NCCL_P2P_READ_ENABLE 2.7.3 - integer auto reads from the peer in place of writing
NCCL_P2P_USE_CUDA_MEMCPY 2.13.4 - integer 0 copies by the copy engines
NCCL_IGNORE_DISABLED_P2P 2.12.7 - integer 0 goes on where NVML says that P2P is off
NCCL_SHM_DISABLE 2.3.5 - integer 0 leaves shared memory unused
NCCL_SHM_LOCALITY 2.13.4 - integer 2 which side owns a shared buffer
NCCL_SHM_MEMCPY_MODE 2.13.4 2.30.4 integer 1 which side copies by the copy engines
NCCL_SHM_USE_CUDA_MEMCPY 2.13.4 2.30.4 integer 0 shared memory by the copy engines
NCCL_NVB_DISABLE 2.9.9 - integer 0 keeps traffic from passing through another GPU's NVLink
NCCL_NVB_PRECONNECT 2.9.9 - integer 1 connects such paths at the start
NCCL_NVLS_ENABLE 2.17.1 - integer 1,2.18.1:2 NVLink SHARP: reductions inside NVSwitch
NCCL_NVLS_UB_SIZE 2.32 - text - not documented
NCCL_NVLS_CHUNKSIZE 2.21.5 - integer 131072 chunk size of NVLink SHARP, in bytes
NCCL_NVLS_NCHANNELS 2.17.1 - integer 16,2.25.1:auto channels of NVLink SHARP
NCCL_NVLSTREE_MAX_CHUNKSIZE 2.20.3 - integer auto largest chunk of trees over NVLink SHARP
NCCL_MNNVL 2.20.3 2.20.5 integer auto NVLink over several nodes; NCCL_MNNVL_ENABLE follows it
NCCL_MNNVL_ENABLE 2.21.5 - integer 2 NVLink over several nodes
NCCL_MNNVL_UUID 2.25.1 - integer -1 which NVLink domain this node counts to
NCCL_MNNVL_CLIQUE_ID 2.23.4 - integer -1 which clique of it
NCCL_MNNVL_CROSS_CLIQUE 2.30.3 - integer 0 joins cliques
NCCL_MNNVL_SCATTER_NETS_ENABLE 2.27.5 - integer 1 spreads NICs over an NVLink domain
NCCL_MNNVL_RAIL_PER_HOST 2.28.7 - integer 0 counts rails for each host
NCCL_CUMEM_ENABLE 2.18.1 - integer 0,2.19.1:auto CUDA's virtual memory functions for buffers
NCCL_CUMEM_HOST_ENABLE 2.23.4 - integer 0,2.24.3:-1 the same for host memory
NCCL_IPC_USE_ABSTRACT_SOCKET 2.29.2 - integer 1 abstract Unix sockets for passing handles
NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE 2.27.3 - integer 0,2.28.7:auto schedules for the best use of NVLink
NCCL_LL128_C2C 2.27.3 - integer 1 LL128 over NVLink-C2C
NCCL_MULTI_RANK_GPU_ENABLE 2.30.3 - integer 0 several ranks on one GPU
NCCL_LSA_TEAM_SIZE 2.29.7 - integer 0 GPUs that reach each other's memory
NCCL_IGNORE_CPU_AFFINITY 2.4.6 - integer 0 pins by the GPU's CPUs, whatever the process may use
NCCL_PROXY_CPUSET 2.28.3 - text - CPUs of the proxy threads
NCCL_SET_CPU_STACK_SIZE 2.28.3 - integer 1 sets the stack size of NCCL's threads
# algorithms and channels
NCCL_ALGO 2.5.6 - text - algorithms to use: Ring, Tree, CollnetDirect, CollnetChain, NVLS, NVLSTree, PAT
NCCL_PROTO 2.5.6 - text - protocols to use: LL, LL128, Simple
NCCL_PAT_ENABLE 2.23.4 - integer 2 the PAT algorithm
NCCL_THREAD_THRESHOLDS 2.5.6 - text - sizes from which more threads are used
NCCL_THREAD_THRESHOLD 2.3.5 2.4.8 integer auto size from which more threads are used
NCCL_TREE_THRESHOLD 2.4.2 2.4.8 integer auto size up to which trees are used; NCCL_ALGO follows it
NCCL_LL_THRESHOLD 2.3.5 2.4.8 integer auto size up to which LL is used; NCCL_PROTO follows it
NCCL_SINGLE_RING_THRESHOLD 2.0.0 2.2.13 integer auto size up to which one ring is used
NCCL_RINGS 2.3.5 2.4.8 text - rings by hand; NCCL_GRAPH_FILE follows it
NCCL_MIN_NRINGS 2.3.5 - integer 0,2.4.7:auto least number of rings; NCCL_MIN_CTAS follows it
NCCL_MAX_NRINGS 2.3.5 - integer 0,2.5.6:auto largest number of rings; NCCL_MAX_CTAS follows it
NCCL_MIN_NCHANNELS 2.5.6 - integer auto least number of channels; NCCL_MIN_CTAS follows it
NCCL_MAX_NCHANNELS 2.5.6 - integer auto largest number of channels; NCCL_MAX_CTAS follows it
NCCL_MIN_CTAS 2.17.1 - integer auto least number of thread blocks
NCCL_MAX_CTAS 2.17.1 - integer auto largest number of thread blocks
NCCL_MIN_P2P_NCHANNELS 2.7.3 - integer 1 least number of channels for send and receive
NCCL_MAX_P2P_NCHANNELS 2.7.3 - integer auto largest number of channels for send and receive
NCCL_NCHANNELS_PER_NET_PEER 2.12.7 - integer 2,2.20.3:-1,2.28.3:auto channels to each peer over the network
NCCL_UNPACK_DOUBLE_NCHANNELS 2.22.3 - integer 1 doubles the channels of networks that unpack
NCCL_CTA_POLICY 2.27.3 - text - how thread blocks are spent
NCCL_CGA_CLUSTER_SIZE 2.15.1 - integer 0,2.16.2:auto thread blocks in a cluster
NCCL_NTHREADS 2.3.5 - integer auto threads in a thread block
NCCL_LL128_NTHREADS 2.5.6 - integer auto threads in a thread block of LL128
NCCL_BUFFSIZE 2.3.5 - integer 4194304,2.6.4:auto size of the buffers between GPUs, in bytes
NCCL_LL_BUFFSIZE 2.7.3 - integer auto size of LL's buffers, in bytes
NCCL_LL128_BUFFSIZE 2.7.3 - integer auto size of LL128's buffers, in bytes
NCCL_CHUNK_SIZE 2.12.7 - integer 0 chunk size of point-to-point traffic, in bytes
NCCL_P2P_NET_CHUNKSIZE 2.14.3 - integer 131072 its chunk size over the network
NCCL_P2P_NVL_CHUNKSIZE 2.16.2 - integer 524288 its chunk size over NVLink
NCCL_P2P_PCI_CHUNKSIZE 2.16.2 - integer 131072 its chunk size over PCIe
NCCL_P2P_LL_THRESHOLD 2.14.3 - integer 16384 size up to which it uses LL
NCCL_P2P_EPOCH_ENABLE 2.29.2 - integer 1 orders point-to-point traffic in epochs
NCCL_P2P_SCHEDULE_GROUP_SIZE 2.28.7 - integer auto peers in a group of its schedule
NCCL_P2P_MAX_PEERS 2.30.3 - integer auto peers that it serves at once
NCCL_P2P_PER_CHANNEL_NET_BW 2.29.2 - integer 14 network bandwidth that a channel counts as, in GB/s
NCCL_P2P_PER_CHANNEL_REG_NET_BW 2.31 - text - the same for registered buffers
NCCL_ALLOC_P2P_NET_LL_BUFFERS 2.14.3 - integer 0 buffers for LL over the network
NCCL_NCCL_ALLOC_P2P_NET_LL_BUFFERS 2.14.3 2.16.2 integer 0 that name with a prefix too many
NCCL_AGG_CHANNEL_SIZE 2.10.3 2.19.4 integer auto bytes for each channel when operations are joined
NCCL_AGG_ALLOC_MODE 2.10.3 2.12.12 text - how channels are given to joined operations
NCCL_SHARED_BUFF_COUNT 2.8.3 2.8.4 integer auto number of shared buffers
NCCL_ALLGATHERV_ENABLE 2.29.2 - integer 1 all-gather of unequal parts
NCCL_SYM_CTAS 2.27.3 - integer 0 thread blocks of kernels on symmetric memory
NCCL_SYM_KERNEL 2.27.3 - text - kernel on symmetric memory to use
NCCL_SYM_CE_THRESHOLD 2.29.2 - integer 8388608 size from which copy engines are used
NCCL_SYM_NOWIN_ENABLE 2.29.2 - integer 0 those kernels without a window
NCCL_SYM_GIN_KERNELS_ENABLE 2.29.7 - integer 1 those kernels over the network
NCCL_SYM_TMA_ENABLE 2.30.3 - integer 0 those kernels with the tensor memory accelerator
NCCL_SYM_REUSE_SYSMEM_HANDLES 2.30.4 - integer 0 uses handles of host memory again
NCCL_SYM_RS_GIN_CHUNK_SIZE 2.30.7 - integer -1 their chunk size of reduce-scatter over the network
NCCL_CE_COLL_AG_MULTICAST_THRESHOLD 2.31 - text - size from which all-gather uses multicast
NCCL_CE_CHUNK_SIZE 2.32 - text - chunk size of copy-engine collectives
NCCL_CE_INTRA_GPU_MEMCPY_ENABLE 2.32 - text - copies inside one GPU by its copy engines
NCCL_HIER_CE_COLL_AG_RAIL_RING_ENABLE 2.32 - text - all-gather in rings along the rails
NCCL_HIER_CE_COLL_NUM_CTX 2.31 - text - contexts of hierarchical copy-engine collectives
NCCL_CFT_ENABLE 2.31 - text - not documented
NCCL_ENQUEUE_REARCH_ENABLE 2.31 - text - not documented
# launching and memory
NCCL_LAUNCH_MODE 2.3.5 - text - how kernels of one process are launched: PARALLEL or GROUP
NCCL_LAUNCH_ORDER_IMPLICIT 2.26.2 - integer 0 orders communicators of one GPU by their launches
NCCL_LAUNCH_RACE_FATAL 2.26.2 - integer 1 ends the program on racing launches
NCCL_GROUP_CUDA_STREAM 2.3.5 - integer auto stream that joins a group's launches
NCCL_GRAPH_REGISTER 2.11.4 - integer 0,2.19.1:1 registers the buffers of CUDA graphs
NCCL_GRAPH_MIXING_SUPPORT 2.13.4 - integer 1,2.29.2:auto graphs and plain launches at the same time
NCCL_GRAPH_HELPER_DISABLE 2.11.4 - integer 0 turned off a thread for CUDA graphs
NCCL_GRAPH_STREAM_ORDERING 2.30.7 - integer auto how CUDA graphs are ordered
NCCL_MEM_SYNC_DOMAIN 2.16.2 - integer auto memory synchronisation domain of kernels
NCCL_L1_SHARED_MEMORY_CARVEOUT 2.12.10 - integer 0 share of L1 that is shared memory
NCCL_SET_STACK_SIZE 2.9.6 - integer 0 sets the kernels' stack size
NCCL_CREATE_THREAD_CONTEXT 2.13.4 2.30.4 integer 0 makes a CUDA context for each thread
NCCL_LOCAL_REGISTER 2.19.1 - integer 1 registers buffers that the user asks for
NCCL_LEGACY_CUDA_REGISTER 2.24.3 - integer 0 registers buffers of cudaMalloc
NCCL_SINGLE_PROC_MEM_REG_ENABLE 2.28.3 - integer 0 registers buffers inside one process
NCCL_MULTI_SEGMENT_REGISTER 2.29.2 - integer 1 registers buffers of several segments
NCCL_ELASTIC_BUFFER_REGISTER 2.30.3 - integer 1 registers buffers that grow
NCCL_COMM_SPLIT_SHARE_RESOURCES 2.18.1 - integer auto shares resources with communicators that are split off
NCCL_COMM_SHRINK_SHARE_RESOURCES 2.27.3 - integer auto shares resources with communicators that shrink
NCCL_PROGRESS_APPENDOP_FREQ 2.16.5 - integer 8 how often the proxy takes new work
NCCL_PROXY_APPEND_BATCH_SIZE 2.16.2 - integer 16 operations that the proxy takes at once
NCCL_WORK_FIFO_DEPTH 2.13.4 2.21.5 integer 65536 depth of the work FIFO; NCCL_WORK_FIFO_BYTES follows it
NCCL_WORK_FIFO_BYTES 2.22.3 - integer auto,2.26.5:-1,2.27.3:auto size of the work FIFO, in bytes
NCCL_WORK_ARGS_BYTES 2.22.3 - integer auto bytes of work passed as kernel arguments
NCCL_WIN_ENABLE 2.27.3 - integer 1 windows of symmetric memory
NCCL_WIN_STRIDE 2.27.3 - integer -1 distance of the windows of two ranks, in bytes
NCCL_SHADOW_MEMPOOL_MAX_SIZE 2.30.7 - integer 1073741824 largest shadow memory pool, in bytes
NCCL_DISABLE_MEM_MANAGER 2.29.7 - integer 0 turns the memory manager off
NCCL_DEV_API_JIT 2.30.7 - integer 0 compiles device functions at run time
"""
