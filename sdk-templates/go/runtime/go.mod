module github.com/jonas/qwer-q/sdk-templates/go/runtime

go 1.24

require google.golang.org/protobuf v1.36.12

require go.uber.org/goleak v1.3.0
