"""NCCL's variables for the network, as rows of a table; variables.py says what the columns are.

Made by scanning the source of every release from 2.3.5 to 2.30.7 for parameters and getenv calls; the names of 2.31
and 2.32 are strings of their libraries, whose source was not read. The purposes are our words.
"""

ROWS = """
# sockets and start
NCCL_SOCKET_IFNAME 2.3.5 - text - network interfaces to use: prefixes, ^ excludes, = takes whole names
NCCL_SOCKET_FAMILY 2.3.5 - text - AF_INET or AF_INET6
NCCL_SOCKET_NTHREADS 2.4.8 - integer auto threads for each TCP connection
NCCL_NSOCKS_PERTHREAD 2.4.8 - integer auto sockets for each of those threads
NCCL_SOCKET_RETRY_CNT 2.24.3 - integer 34 how often a connection is tried
NCCL_SOCKET_RETRY_SLEEP_MSEC 2.24.3 - integer 100 pause between tries, in milliseconds
NCCL_SOCKET_POLL_TIMEOUT_MSEC 2.29.2 - integer 0 how long one poll of a socket waits, in milliseconds
NCCL_SOCKET_INLINE 2.27.3 - integer 128 largest message sent along with its header, in bytes
NCCL_SOCKET_MIN_TASKSIZE 2.27.3 - integer 65536 smallest part of a message given to one socket, in bytes
NCCL_SOCKET_RCVBUF 2.27.3 - integer -1 receive buffer of a socket, in bytes
NCCL_SOCKET_SNDBUF 2.27.3 - integer -1 send buffer of a socket, in bytes
NCCL_SOCKET_MAGIC 2.30.7 2.31.2 text - number by which ranks of one job know each other
NCCL_COMM_ID 2.3.5 - text - address and port of the first rank, for programs without a launcher
NCCL_HOSTID 2.5.6 - text - string that names the host in place of its name and boot id
NCCL_OOB_NET_ENABLE 2.23.4 - integer 0 has the network plugin carry the start of a job
NCCL_OOB_NET_IFNAME 2.23.4 - text - interface of that plugin
NCCL_UID_STAGGER_RATE 2.23.4 - integer 7000 how many ranks a second join a large job
NCCL_UID_STAGGER_THRESHOLD 2.23.4 - integer 256 number of ranks from which they join one after the other
NCCL_COMM_BLOCKING 2.14.3 - integer 0,2.17.1:auto whether calls wait until they are done
NCCL_CONNECT_ROUND_MAX_PEERS 2.19.4 - integer 128 peers that are connected in one round
NCCL_RUNTIME_CONNECT 2.22.3 - integer 1 connects peers when they are first needed
# InfiniBand and RoCE
NCCL_IB_DISABLE 2.3.5 - integer 0 leaves InfiniBand and RoCE unused
NCCL_IB_HCA 2.3.5 - text - RDMA devices and ports to use: prefixes, ^ excludes, = takes whole names
NCCL_IB_GID_INDEX 2.3.5 - integer 0,2.21.5:-1 entry of the GID table to use on RoCE
NCCL_IB_ADDR_FAMILY 2.21.5 - text - family of the GID that is chosen: AF_INET or AF_INET6
NCCL_IB_ADDR_RANGE 2.21.5 - text - subnet that the chosen GID must lie in
NCCL_IB_ROCE_VERSION_NUM 2.21.5 - integer 2 RoCE version of the GID that is chosen
NCCL_IB_ROUTABLE_FLID_GID_INDEX 2.22.3 - integer 1 GID entry for routed InfiniBand
NCCL_IB_TIMEOUT 2.3.5 - integer 14,2.14.3:18,2.23.4:20 how long an answer is waited for: 4.096 us * 2**value
NCCL_IB_RETRY_CNT 2.3.5 - integer 7 how often a packet is sent again
NCCL_IB_SL 2.3.5 - integer 0,2.26.2:-1 InfiniBand service level
NCCL_IB_TC 2.3.5 - integer 0,2.26.2:-1 InfiniBand or RoCE traffic class
NCCL_IB_FIFO_TC 2.22.3 - integer 0,2.24.3:-1 traffic class of control messages
NCCL_IB_PKEY 2.8.3 - integer 0 entry of the table of partition keys
NCCL_IB_USE_INLINE 2.8.3 - integer 0 sends small messages inside the request
NCCL_IB_CUDA_SUPPORT 2.3.5 2.3.7 integer auto GPUDirect RDMA on or off; NCCL_NET_GDR_LEVEL follows it
NCCL_IB_GDR_LEVEL 2.3.5 2.3.7 integer auto how near GPU and NIC must be; NCCL_NET_GDR_LEVEL follows it
NCCL_IB_AR_THRESHOLD 2.6.4 - integer 8192,2.30.3:auto size from which adaptive routing is used, in bytes
NCCL_IB_ADAPTIVE_ROUTING 2.16.2 - integer auto adaptive routing
NCCL_IB_QPS_PER_CONNECTION 2.10.3 - integer 1 queue pairs for each connection
NCCL_IB_SPLIT_DATA_ON_QPS 2.18.1 - integer 1,2.20.3:0 spreads each message over all queue pairs
NCCL_IB_PCI_RELAXED_ORDERING 2.12.7 - integer 2 relaxed ordering of PCIe writes
NCCL_IB_MERGE_NICS 2.20.3 - integer 1 joins the two ports of one NIC
NCCL_IB_MERGE_VFS 2.18.1 - integer 1 joins virtual functions of one NIC
NCCL_IB_ECE_ENABLE 2.23.4 - integer 1 extended connection establishment
NCCL_IB_RETURN_ASYNC_EVENTS 2.23.4 - integer 1 ends the job on asynchronous errors of a device
NCCL_IB_DATA_DIRECT 2.27.3 - integer 1 Data Direct of ConnectX-8
NCCL_IB_WARN_RAIL_LOCAL 2.24.3 - integer 0 warns when a NIC of another rail is used
NCCL_IB_MQP_RETRY_ALL 2.24.3 - integer 0 tries again after every error of modify_qp
NCCL_IB_MQP_RETRY_CNT 2.24.3 - integer 34 how often modify_qp is tried
NCCL_IB_MQP_RETRY_SLEEP_MSEC 2.24.3 - integer 100 pause between those tries, in milliseconds
NCCL_IB_DEVICE_PCI_ORDER 2.29.7 - integer 1 takes devices in the order of their PCI addresses
NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS 2.29.7 - integer 0,2.30.3:auto posts receives ahead of time
NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME 2.29.7 - integer 0,2.30.3:auto how the receiver matches messages
NCCL_IB_RESILIENCY_PORT_FAILOVER 2.29.7 - integer 0 goes on over another port when one fails
NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS 2.29.7 - integer 1 how often that is tried
NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY 2.29.7 - integer 10 pause between probes of a failed port
NCCL_IB_RESILIENCY_PORT_RECOVERY 2.30.3 - integer 0 takes a port back when it works again
NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT 2.30.3 - integer 5000 timeout of an answer during recovery
NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL 2.30.3 - integer 500 pause between batches
NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE 2.30.3 - integer 5 probes in a batch
NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE 2.30.3 - integer 5 probes in a sequence
NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT 2.30.3 - integer 4000 timeout of a probe
NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX 2.30.3 - integer 5 how often recovery is tried
NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY 2.30.3 - integer 200 pause before recovery begins
NCCL_IB_OOO_RQ 2.30.3 - integer 0 receive queues that take messages out of order
NCCL_IB_QUERY_PORT_SPEED 2.30.7 - integer 1 asks the device for its speed
NCCL_IB_SUBNET_AWARE_ROUTING 2.30.7 - integer 0 connects only ports of one subnet
NCCL_IB_SUBNET_PREFIX_LEN 2.30.7 - integer 24 length of that subnet's prefix
NCCL_IB_SORT_MERGE_NICS 2.32 - text - order of the ports that are merged into one device
NCCL_IB_RAIL_POLICY 2.32 - text - which port serves which rail
NCCL_IB_EVENT_BASED_LB 2.31 - text - load balancing by events
NCCL_IB_EVENT_BASED_LB_REMOTE 2.31 - text - load balancing by events of the other side
NCCL_IB_WQE_LATENCY_REPORT 2.31 - text - reports slow work requests
NCCL_IB_WQE_LATENCY_THRESHOLD_NS 2.31 - text - from when a work request is slow, in nanoseconds
NCCL_MLOPART_RDMA_ENABLE 2.30.7 2.31.2 integer 0 RDMA from a part of a GPU
# network and GPUDirect
NCCL_NET 2.10.3 - text - network by name: IB, Socket or a plugin's
NCCL_NET_GDR_LEVEL 2.4.2 - text - how near GPU and NIC must be for GPUDirect RDMA: LOC, PIX, PXB, PHB or SYS
NCCL_NET_GDR_READ 2.3.5 - integer auto GPUDirect RDMA for sending too
NCCL_NET_GDR_C2C 2.26.2 - integer 0,2.27.3:1 GPUDirect RDMA over NVLink-C2C
NCCL_NET_GDR_MLOPART 2.30.7 2.31.2 integer 0 GPUDirect RDMA for parts of a GPU
NCCL_DMABUF_ENABLE 2.13.4 - integer 1 GPUDirect RDMA by DMA-BUF
NCCL_GDR_FLUSH_DISABLE 2.3.5 - integer 0 leaves out the flush after a GPUDirect receive
NCCL_GDRCOPY_ENABLE 2.9.6 - integer 0 GDRCopy
NCCL_GDRCOPY_FIFO_ENABLE 2.9.6 - integer 1 GDRCopy for the work FIFO
NCCL_GDRCOPY_FLUSH_ENABLE 2.9.6 - integer 0 GDRCopy for flushing
NCCL_GDRCOPY_SYNC_ENABLE 2.12.7 - integer 1 GDRCopy for synchronisation
NCCL_GDRCOPY_TAIL_ENABLE 2.9.6 2.11.4 integer 1 GDRCopy for the tail
NCCL_GDRCOPY_USE_INTERNAL_DMABUF 2.31 - text - DMA-BUF inside GDRCopy
NCCL_NET_FORCE_FLUSH 2.15.1 - integer 1,2.19.1:0 flushes after each GPUDirect receive
NCCL_NET_OPTIONAL_RECV_COMPLETION 2.24.3 - integer 1 leaves completions of receives out where it may
NCCL_NET_MERGE_LEVEL 2.24.3 - text - how near NICs must be to be joined: LOC, PORT, PIX, PXB, PHB or SYS
NCCL_NET_FORCE_MERGE 2.24.3 - text - lists of NICs to join
NCCL_NET_MERGE_POLICY 2.30.7 - text - how NICs are chosen to be joined
NCCL_NET_DISABLE_INTRA 2.12.7 - integer auto,2.12.10:0 keeps the network out of traffic inside a machine
NCCL_NET_SHARED_BUFFERS 2.8.3 - integer auto shares buffers between point-to-point connections
NCCL_NET_SHARED_COMMS 2.12.7 - integer 1 shares connections between communicators of a process
NCCL_NET_OVERHEAD 2.18.1 - integer auto cost of a network message in the tuning model
NCCL_NETDEVS_POLICY 2.28.3 - text - how NICs are given to GPUs
NCCL_CROSS_NIC 2.5.6 - integer 2 whether a ring may change the NIC from node to node
NCCL_PXN_DISABLE 2.12.7 - integer 0 keeps GPUs from using a NIC through another GPU
NCCL_PXN_C2C 2.27.3 - integer 0,2.28.3:1 PXN over NVLink-C2C
NCCL_P2P_PXN_LEVEL 2.12.7 - integer 2 when point-to-point traffic uses PXN
NCCL_COLLNET_ENABLE 2.6.4 - integer 0,2.27.3:auto SHARP and other in-network collectives
NCCL_COLLNET_NODE_THRESHOLD 2.9.9 - integer 2 number of nodes from which they are used
NCCL_IGNORE_COLLNET_MISMATCH 2.30.3 - integer 0 goes on when ranks differ in in-network collectives
NCCL_IGNORE_NET_MISMATCH 2.30.3 - integer 1 goes on when nodes differ in their NICs
NCCL_GIN_ENABLE 2.28.7 - integer 1 networking from inside kernels
NCCL_GIN_TYPE 2.28.7 - integer -1 how that is done
NCCL_GIN_ERROR_QUERY_SEC 2.28.7 - integer 10 how often its errors are asked for, in seconds
NCCL_GIN_GDAKI_NIC_HANDLER 2.28.7 - integer 0 who handles the NIC's doorbells
NCCL_GIN_GDAKI_QP_DEPTH 2.28.7 - integer 128 depth of its queue pairs
NCCL_GIN_GDAKI_MAX_DEST_RD_ATOMIC 2.30.3 - integer auto its outstanding reads at the target
NCCL_GIN_GDAKI_MAX_QP_RD_ATOMIC 2.30.3 - integer auto its outstanding reads
NCCL_GDAKI_USE_RELIABLE_DB 2.29.7 - integer 0 reliable doorbells
NCCL_GIN_PROXY_QUEUE_SIZE 2.28.7 - integer -1 length of its proxy's queue
NCCL_GIN_GDAKI_LAG_AWARE_DISABLE 2.32 - text - not documented
NCCL_GDAKI_FORCE_MCST 2.32 - text - not documented
NCCL_GIN_PROXY_NTHREADS 2.31 - text - threads of its proxy
NCCL_GIN_PROXY_POLL_BATCH 2.31 - text - completions its proxy takes at once
NCCL_GIN_NCONNECTIONS 2.29.7 - integer auto its connections to each peer
NCCL_GIN_NCONTEXTS 2.28.7 2.29.7 integer auto,2.29.7:-1 number of its contexts
NCCL_GIN_EXCLUSIVE_CONTEXTS 2.29.7 2.29.7 integer -1 contexts for one user each
NCCL_GIN_SIGNAL_POOL_SIZE 2.28.7 2.29.7 integer 65536,2.29.7:524288 number of its signals
NCCL_GIN_COUNTER_POOL_SIZE 2.28.7 2.29.7 integer 65536,2.29.7:524288 number of its counters
NCCL_GIN_CONNECTION_RAIL 2.30.7 - text - which rails it connects
NCCL_GIN_IB_TC 2.30.7 - integer -1 its traffic class
NCCL_GIN_IB_ALLGATHER_TAG 2.31 - text - its tag of all-gather
NCCL_GIN_IB_ALLTOALL_TAG 2.31 - text - its tag of all-to-all
NCCL_GIN_IB_OOO_OPT 2.31 - text - its messages out of order
NCCL_NUM_RMA_CTX 2.29.2 - integer auto contexts for one-sided operations
NCCL_NUM_RMA_INT_CTX 2.31 - text - internal contexts for one-sided operations
NCCL_RMA_DISABLE 2.30.7 - integer 0 turns one-sided operations off
NCCL_RMA_PROXY_QUEUE_SIZE 2.29.2 - integer -1 length of the RMA proxy's queue
NCCL_RMA_EAGER_INIT 2.31 - text - sets one-sided operations up at the start
NCCL_RMA_MULTI_CTX_THRESHOLD 2.31 - text - size from which several contexts are used
NCCL_TOPO_SCATTER_START_NET 2.31 2.31.2 text - spreads the first NICs of channels
NCCL_TOPO_SPLIT_MLOPART 2.30.7 - integer 1 takes parts of a GPU as GPUs of their own
"""
