// Made from the crate qwerq-proto by QWERQ_BLESS=1 cargo test -p qwerq-codegen --lib wire.
//
// The messages of the protocol, field for field as in proto/proto/qwerq/v1/wire.proto. They are plain structs and not generated
// messages, so that two copies of this package in one program never meet in protobuf's registry. `codec.go` reads the tags;
// docs/protocol.md says what the fields mean.

package qwerq

type wireHello struct {
	MinProtocol   uint32   `wire:"1,min_protocol"`
	MaxProtocol   uint32   `wire:"2,max_protocol"`
	ClientName    string   `wire:"3,client_name"`
	ClientVersion string   `wire:"4,client_version"`
	Token         string   `wire:"5,token"`
	Features      []string `wire:"6,features"`
}

type wireHelloAck struct {
	Protocol              uint32   `wire:"1,protocol"`
	Features              []string `wire:"2,features"`
	MaxFrameBytes         uint32   `wire:"3,max_frame_bytes"`
	MaxMessageBytes       uint32   `wire:"4,max_message_bytes"`
	PublishWindowRequests uint32   `wire:"5,publish_window_requests"`
	PublishWindowBytes    uint32   `wire:"6,publish_window_bytes"`
	HeartbeatMS           uint32   `wire:"7,heartbeat_ms"`
	Session               string   `wire:"8,session"`
	BrokerVersion         string   `wire:"9,broker_version"`
}

type wireHeader struct {
	Name  string `wire:"1,name"`
	Value string `wire:"2,value"`
}

type wirePublish struct {
	Queue    string             `wire:"1,queue"`
	Items    []*wirePublishItem `wire:"2,items"`
	Atomic   bool               `wire:"3,atomic"`
	Contract []byte             `wire:"4,contract"`
}

type wirePublishItem struct {
	Payload        []byte        `wire:"1,payload"`
	Headers        []*wireHeader `wire:"2,headers"`
	OrderingKey    string        `wire:"3,ordering_key"`
	IdempotencyKey string        `wire:"4,idempotency_key"`
	DelayMS        *uint64       `wire:"5,delay_ms"`
	DeliverAtMS    *uint64       `wire:"6,deliver_at_ms"`
	TtlMS          *uint64       `wire:"7,ttl_ms"`
	ID             []byte        `wire:"8,id"`
}

type wirePublishAck struct {
	Results         []*wirePublishResult `wire:"1,results"`
	Durability      int32                `wire:"2,durability"`
	ContractUnknown bool                 `wire:"3,contract_unknown"`
}

type wirePublishResult struct {
	ID            []byte     `wire:"1,id"`
	Seq           *uint64    `wire:"2,seq"`
	SchemaVersion uint32     `wire:"3,schema_version"`
	Duplicate     bool       `wire:"4,duplicate"`
	Error         *wireError `wire:"5,error"`
	DeadLettered  bool       `wire:"6,dead_lettered"`
}

type wireError struct {
	Code         uint32            `wire:"1,code"`
	Name         string            `wire:"2,name"`
	Message      string            `wire:"3,message"`
	Details      map[string]string `wire:"4,details"`
	RetryAfterMS uint64            `wire:"5,retry_after_ms"`
	Subscription *uint32           `wire:"6,subscription"`
}

type wireStartAt struct {
	Beginning *bool   `wire:"1,beginning"`
	End       *bool   `wire:"2,end"`
	Offset    *uint64 `wire:"3,offset"`
	TimeMS    *uint64 `wire:"4,time_ms"`
}

type wireConsume struct {
	Subscription        uint32       `wire:"1,subscription"`
	Queue               string       `wire:"2,queue"`
	Group               string       `wire:"3,group"`
	Prefetch            uint32       `wire:"4,prefetch"`
	PrefetchBytes       uint64       `wire:"5,prefetch_bytes"`
	Concurrency         uint32       `wire:"6,concurrency"`
	VisibilityTimeoutMS uint64       `wire:"7,visibility_timeout_ms"`
	StartAt             *wireStartAt `wire:"8,start_at"`
	Role                int32        `wire:"9,role"`
	Contract            []byte       `wire:"10,contract"`
}

type wireConsumeAck struct {
	Subscription        uint32 `wire:"1,subscription"`
	Group               string `wire:"2,group"`
	GroupExisted        bool   `wire:"3,group_existed"`
	VisibilityTimeoutMS uint64 `wire:"4,visibility_timeout_ms"`
}

type wireDeliver struct {
	Subscription uint32           `wire:"1,subscription"`
	Messages     []*wireDelivered `wire:"2,messages"`
}

type wireDelivered struct {
	LeaseID       []byte        `wire:"1,lease_id"`
	Seq           uint64        `wire:"2,seq"`
	Attempt       uint32        `wire:"3,attempt"`
	Skipped       uint64        `wire:"4,skipped"`
	LeaseMS       uint64        `wire:"5,lease_ms"`
	ID            []byte        `wire:"6,id"`
	PublishedAtMS uint64        `wire:"7,published_at_ms"`
	SchemaVersion uint32        `wire:"8,schema_version"`
	Headers       []*wireHeader `wire:"9,headers"`
	OrderingKey   string        `wire:"10,ordering_key"`
	Payload       []byte        `wire:"15,payload"`
}

type wireCredit struct {
	Subscription  uint32 `wire:"1,subscription"`
	Prefetch      uint32 `wire:"2,prefetch"`
	PrefetchBytes uint64 `wire:"3,prefetch_bytes"`
}

type wireSettle struct {
	LeaseIDs            [][]byte `wire:"1,lease_ids"`
	Confirm             bool     `wire:"2,confirm"`
	DelayMS             *uint64  `wire:"3,delay_ms"`
	Reason              string   `wire:"4,reason"`
	VisibilityTimeoutMS uint64   `wire:"5,visibility_timeout_ms"`
}

type wireSettled struct {
	Settled uint32              `wire:"1,settled"`
	Refused []*wireRefusedLease `wire:"2,refused"`
}

type wireRefusedLease struct {
	Index uint32     `wire:"1,index"`
	Error *wireError `wire:"2,error"`
}

type wireFetch struct {
	Queue               string       `wire:"1,queue"`
	Group               string       `wire:"2,group"`
	Max                 uint32       `wire:"3,max"`
	WaitMS              uint64       `wire:"4,wait_ms"`
	VisibilityTimeoutMS uint64       `wire:"5,visibility_timeout_ms"`
	Detached            bool         `wire:"6,detached"`
	StartAt             *wireStartAt `wire:"7,start_at"`
	Contract            []byte       `wire:"8,contract"`
}

type wireFetched struct {
	Messages []*wireDelivered `wire:"1,messages"`
	NextSeq  *uint64          `wire:"2,next_seq"`
}

type wireUnsubscribe struct {
	Subscription uint32 `wire:"1,subscription"`
	KeepLeases   bool   `wire:"2,keep_leases"`
}

type wireSubscriptionEnded struct {
	Subscription uint32     `wire:"1,subscription"`
	Reason       *wireError `wire:"2,reason"`
}

type wireHeartbeat struct {
}

type wireDone struct {
}

type wireGoAway struct {
	Reason string `wire:"1,reason"`
	Leader string `wire:"2,leader"`
}

type wireCall struct {
	Queue         string        `wire:"1,queue"`
	Payload       []byte        `wire:"2,payload"`
	Headers       []*wireHeader `wire:"3,headers"`
	TimeoutMS     uint64        `wire:"4,timeout_ms"`
	Contract      []byte        `wire:"5,contract"`
	CallID        []byte        `wire:"6,call_id"`
	Subscription  uint32        `wire:"7,subscription"`
	SchemaVersion uint32        `wire:"8,schema_version"`
}

type wireCallResponse struct {
	CallID        []byte        `wire:"1,call_id"`
	Payload       []byte        `wire:"2,payload"`
	Headers       []*wireHeader `wire:"3,headers"`
	Error         *wireError    `wire:"4,error"`
	SchemaVersion uint32        `wire:"5,schema_version"`
}

type wireCancel struct {
	RequestID uint32 `wire:"1,request_id"`
}

type wireSchemaRegister struct {
	Queue         string            `wire:"1,queue"`
	DescriptorSet []byte            `wire:"2,descriptor_set"`
	MessageType   string            `wire:"3,message_type"`
	ReplyType     string            `wire:"4,reply_type"`
	Sources       []*wireSourceFile `wire:"5,sources"`
	Force         bool              `wire:"6,force"`
	DryRun        bool              `wire:"7,dry_run"`
}

type wireSourceFile struct {
	Path string `wire:"1,path"`
	Text string `wire:"2,text"`
}

type wireSchemaGet struct {
	Queue       string `wire:"1,queue"`
	Version     uint32 `wire:"2,version"`
	Fingerprint []byte `wire:"3,fingerprint"`
}

type wireSchemaResponse struct {
	Version       *wireSchemaVersion   `wire:"1,version"`
	DescriptorSet []byte               `wire:"2,descriptor_set"`
	Sources       []*wireSourceFile    `wire:"3,sources"`
	Existed       bool                 `wire:"4,existed"`
	Findings      []*wireSchemaFinding `wire:"5,findings"`
	Compatibility string               `wire:"6,compatibility"`
	Refused       bool                 `wire:"7,refused"`
}

type wireSchemaFinding struct {
	Rule             string `wire:"1,rule"`
	Path             string `wire:"2,path"`
	Before           string `wire:"3,before"`
	After            string `wire:"4,after"`
	OldPlace         string `wire:"5,old_place"`
	NewPlace         string `wire:"6,new_place"`
	BreaksNewReaders bool   `wire:"7,breaks_new_readers"`
	BreaksOldReaders bool   `wire:"8,breaks_old_readers"`
	What             string `wire:"9,what"`
	Instead          string `wire:"10,instead"`
	Version          uint32 `wire:"11,version"`
}

type wireSchemaSelect struct {
	Queue   string `wire:"1,queue"`
	Version uint32 `wire:"2,version"`
	Force   bool   `wire:"3,force"`
}

type wireSchemaClients struct {
	Clients []*wireSchemaClient `wire:"1,clients"`
}

type wireSchemaClient struct {
	Client     string `wire:"1,client"`
	Role       string `wire:"2,role"`
	Group      string `wire:"3,group"`
	Version    uint32 `wire:"4,version"`
	Contract   []byte `wire:"5,contract"`
	Connected  bool   `wire:"6,connected"`
	LastSeenMS uint64 `wire:"7,last_seen_ms"`
}

type wireSchemaVersion struct {
	Queue          string `wire:"1,queue"`
	Version        uint32 `wire:"2,version"`
	MessageType    string `wire:"3,message_type"`
	ReplyType      string `wire:"4,reply_type"`
	Fingerprint    []byte `wire:"5,fingerprint"`
	RegisteredAtMS uint64 `wire:"6,registered_at_ms"`
	RegisteredBy   string `wire:"7,registered_by"`
	Active         bool   `wire:"8,active"`
	Retired        bool   `wire:"9,retired"`
}

type wireSchemaList struct {
	AllVersions bool   `wire:"1,all_versions"`
	Queue       string `wire:"2,queue"`
}

type wireSchemaListResponse struct {
	Versions []*wireSchemaVersion `wire:"1,versions"`
}

type wireSchemaChanged struct {
	Version *wireSchemaVersion `wire:"1,version"`
}

type wireQueueOptions struct {
	Mode                *string `wire:"1,mode"`
	VisibilityTimeoutMS *uint64 `wire:"2,visibility_timeout_ms"`
	MaxDeliveries       *uint32 `wire:"3,max_deliveries"`
	OnFailure           *string `wire:"4,on_failure"`
	RetryBackoffFirstMS *uint64 `wire:"5,retry_backoff_first_ms"`
	RetryBackoffMaxMS   *uint64 `wire:"6,retry_backoff_max_ms"`
	SchemaMode          *string `wire:"7,schema_mode"`
	OnInvalid           *string `wire:"8,on_invalid"`
	Compatibility       *string `wire:"9,compatibility"`
	MaxMessages         *uint64 `wire:"10,max_messages"`
	MaxBytes            *uint64 `wire:"11,max_bytes"`
	MaxAgeMS            *uint64 `wire:"12,max_age_ms"`
	OnFull              *string `wire:"13,on_full"`
	DedupWindowMS       *uint64 `wire:"14,dedup_window_ms"`
	DedupMaxKeys        *uint64 `wire:"15,dedup_max_keys"`
	MessageTtlMS        *uint64 `wire:"16,message_ttl_ms"`
	OnExpiry            *string `wire:"17,on_expiry"`
	DelayMS             *uint64 `wire:"18,delay_ms"`
	MaxMessageBytes     *uint64 `wire:"19,max_message_bytes"`
	GroupExpiryMS       *uint64 `wire:"20,group_expiry_ms"`
	MaxUnsettled        *uint64 `wire:"21,max_unsettled"`
}

type wireQueueCreate struct {
	Name    string            `wire:"1,name"`
	Options *wireQueueOptions `wire:"2,options"`
}

type wireQueueUpdate struct {
	Name    string            `wire:"1,name"`
	Options *wireQueueOptions `wire:"2,options"`
}

type wireQueueName struct {
	Name string `wire:"1,name"`
}

type wireQueueList struct {
	Search string `wire:"1,search"`
	After  string `wire:"2,after"`
	Limit  uint32 `wire:"3,limit"`
	Mode   string `wire:"4,mode"`
}

type wireQueueListResponse struct {
	Queues []*wireQueueInfo `wire:"1,queues"`
	Next   string           `wire:"2,next"`
}

type wireQueueInfo struct {
	Name        string             `wire:"1,name"`
	Options     *wireQueueOptions  `wire:"2,options"`
	Depth       uint64             `wire:"3,depth"`
	Bytes       uint64             `wire:"4,bytes"`
	Ready       uint64             `wire:"5,ready"`
	Delayed     uint64             `wire:"6,delayed"`
	BackingOff  uint64             `wire:"7,backing_off"`
	InFlight    uint64             `wire:"8,in_flight"`
	NextSeq     uint64             `wire:"9,next_seq"`
	FirstSeq    uint64             `wire:"10,first_seq"`
	Groups      []*wireGroupInfo   `wire:"11,groups"`
	Contract    *wireSchemaVersion `wire:"12,contract"`
	CreatedAtMS uint64             `wire:"13,created_at_ms"`
}

type wireGroupInfo struct {
	Name        string `wire:"1,name"`
	AckFloor    uint64 `wire:"2,ack_floor"`
	Lag         uint64 `wire:"3,lag"`
	InFlight    uint64 `wire:"4,in_flight"`
	BackingOff  uint64 `wire:"5,backing_off"`
	Consumers   uint32 `wire:"6,consumers"`
	BlockedKeys uint64 `wire:"7,blocked_keys"`
}

type wirePurged struct {
	Messages uint64  `wire:"1,messages"`
	NextSeq  *uint64 `wire:"2,next_seq"`
}

type wireGroupRequest struct {
	Queue   string       `wire:"1,queue"`
	Group   string       `wire:"2,group"`
	StartAt *wireStartAt `wire:"3,start_at"`
}

type wireCommitOffset struct {
	Queue  string `wire:"1,queue"`
	Group  string `wire:"2,group"`
	Offset uint64 `wire:"3,offset"`
}

type wirePeek struct {
	Queue   string       `wire:"1,queue"`
	FromSeq uint64       `wire:"2,from_seq"`
	Max     uint32       `wire:"3,max"`
	StartAt *wireStartAt `wire:"4,start_at"`
}

type wireDeadLetters struct {
	Queue   string  `wire:"1,queue"`
	Group   string  `wire:"2,group"`
	ID      []byte  `wire:"3,id"`
	Reason  string  `wire:"4,reason"`
	SinceMS *uint64 `wire:"5,since_ms"`
	UntilMS *uint64 `wire:"6,until_ms"`
	Max     uint32  `wire:"7,max"`
	FromSeq uint64  `wire:"8,from_seq"`
}

type wireRedrive struct {
	Letters   *wireDeadLetters `wire:"1,letters"`
	To        string           `wire:"2,to"`
	AllGroups bool             `wire:"3,all_groups"`
	Payload   *[]byte          `wire:"4,payload"`
}

type wireRedriven struct {
	Redriven uint64     `wire:"1,redriven"`
	Refused  uint64     `wire:"2,refused"`
	Refusal  *wireError `wire:"3,refusal"`
	NextSeq  *uint64    `wire:"4,next_seq"`
}

type wireExplain struct {
	Queue       string  `wire:"1,queue"`
	Group       string  `wire:"2,group"`
	ID          []byte  `wire:"3,id"`
	Seq         *uint64 `wire:"4,seq"`
	OrderingKey string  `wire:"5,ordering_key"`
}

type wireExplained struct {
	Explanations []*wireExplanation `wire:"1,explanations"`
}

type wireExplanation struct {
	Group   string            `wire:"1,group"`
	Cause   string            `wire:"2,cause"`
	Text    string            `wire:"3,text"`
	Details map[string]string `wire:"4,details"`
}

type wireClusterStatus struct {
}

type wireClusterStatusResponse struct {
	ClusterID      string               `wire:"1,cluster_id"`
	NodeID         uint64               `wire:"2,node_id"`
	Role           string               `wire:"3,role"`
	Term           uint64               `wire:"4,term"`
	Leader         *uint64              `wire:"5,leader"`
	LastLogIndex   uint64               `wire:"6,last_log_index"`
	CommittedIndex uint64               `wire:"7,committed_index"`
	AppliedIndex   uint64               `wire:"8,applied_index"`
	SnapshotIndex  uint64               `wire:"9,snapshot_index"`
	PurgedIndex    uint64               `wire:"10,purged_index"`
	Healing        bool                 `wire:"11,healing"`
	Members        []*wireClusterMember `wire:"12,members"`
}

type wireClusterMember struct {
	ID            uint64  `wire:"1,id"`
	RaftAddress   string  `wire:"2,raft_address"`
	ClientAddress string  `wire:"3,client_address"`
	HttpAddress   string  `wire:"4,http_address"`
	Voter         bool    `wire:"5,voter"`
	Role          string  `wire:"6,role"`
	MatchedIndex  *uint64 `wire:"7,matched_index"`
	Lag           *uint64 `wire:"8,lag"`
	LastContactMS *uint64 `wire:"9,last_contact_ms"`
}

type wireClusterChange struct {
	Add      *wireClusterNode `wire:"1,add"`
	Remove   *uint64          `wire:"2,remove"`
	Transfer *uint64          `wire:"3,transfer"`
}

type wireClusterNode struct {
	ID          uint64 `wire:"1,id"`
	RaftAddress string `wire:"2,raft_address"`
}
